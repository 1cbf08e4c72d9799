"""Arithmetic on tuples of tensors, with products accumulated in float64.

The multiplier λ is a quotient of inner products, so these are taken in float64 whatever the dtype of the tensors: their
squares then neither vanish nor overflow for entries between 1e-150 and 1e150. Large tensors are converted block by
block, so that no float64 copy of a whole variable ever exists. Of tensors that are sharded over ranks each rank works
on its part; products are summed over the ranks, and are bitwise equal on all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.distributed import layout, local, sharded_like, summed

BLOCK = 1 << 15
"""Entries converted to float64 at a time: 256 KB, which stay in the cache and need no fresh pages of memory."""


class Pair(NamedTuple):
    """A point, gradient or direction in the joint space of (v, θ)."""

    v: Leaves
    theta: Leaves


def dot(a: Leaves, b: Leaves) -> Tensor:
    """⟨a, b⟩ in float64, as a 0-d tensor."""
    return dots([(a, b)])[0]


def dots(pairs: Sequence[tuple[Leaves, Leaves]], weights: Sequence[float] | None = None) -> Leaves:
    """⟨a, Sb⟩ of each pair (a, b), with S a weight for each leaf; what is sharded is summed by one message for all."""
    sums: dict[Any, list[Tensor]] = {}
    if not pairs[0][0]:
        sums[None] = [torch.zeros((), dtype=torch.float64)] * len(pairs)
    scales = weights if weights is not None else (1.0,) * len(pairs[0][0])
    for weight, *factors in zip(scales, *(zip(a, b, strict=True) for a, b in pairs), strict=True):
        total = sums.setdefault(layout(factors[0][0]), [number(0, factors[0][0])] * len(pairs))
        total[:] = [known + weight * found for known, found in zip(total, _products(factors), strict=True)]
    parts = [totals if over is None else summed(torch.stack(totals), over).unbind() for over, totals in sums.items()]
    return tuple(sum(each[1:], each[0]) for each in zip(*parts, strict=True))


def number(value: float, beside: Tensor) -> Tensor:
    """A number as a 0-d tensor in float64 on the device of another tensor; never sharded."""
    return local(beside).new_full((), value, dtype=torch.float64)


def _products(factors: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """⟨x, y⟩ of each pair of tensors on this rank; a tensor that is in several pairs is converted once."""
    tensors = {id(x): local(x) for pair in factors for x in pair}
    totals = [number(0, factors[0][0])] * len(factors)
    for blocks in zip(*map(_blocks, tensors.values()), strict=True):
        exact = dict(zip(tensors, (block.double() for block in blocks), strict=True))
        totals = [total + torch.dot(exact[id(x)], exact[id(y)]) for total, (x, y) in zip(totals, factors, strict=True)]
        del exact  # before the next block is converted
    return totals


def sub(a: Leaves, b: Leaves) -> Leaves:
    """a − b."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def add(a: Leaves, b: Leaves) -> Leaves:
    """a + b."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def scale(alpha: float | Tensor, a: Leaves) -> Leaves:
    """α a, formed in float64 and cast back, since α and a may be of very different size."""
    return tuple(_in_float64(lambda x: alpha * x, x) for x in a)


def axpy(alpha: float | Tensor, x: Leaves, y: Leaves) -> Leaves:
    """α x + y, formed in float64 and cast back to the dtype of y."""
    return tuple(_in_float64(lambda p, q: alpha * p + q, p, q) for p, q in zip(x, y, strict=True))


def clone(a: Leaves) -> Leaves:
    """Copies, detached from any graph."""
    return tuple(x.detach().clone() for x in a)


def zeros_like(a: Leaves) -> Leaves:
    """Zeros of the same shapes and dtypes."""
    return tuple(torch.zeros_like(x) for x in a)


def _blocks(x: Tensor) -> Iterator[Tensor]:
    flat = x.reshape(-1)
    return iter((flat,)) if flat.numel() <= BLOCK else iter(torch.split(flat, BLOCK))


def _in_float64(op: Callable[..., Tensor], *leaves: Tensor) -> Tensor:
    """op on the leaves as if they were float64, in the dtype of the last; by blocks where they are large."""
    pattern = leaves[-1]
    return sharded_like(_locally_in_float64(op, *map(local, leaves)), pattern)


def _locally_in_float64(op: Callable[..., Tensor], *leaves: Tensor) -> Tensor:
    last = leaves[-1]
    if last.numel() <= BLOCK:
        return op(*(x.double() for x in leaves)).to(last.dtype)
    out = torch.empty_like(last, memory_format=torch.contiguous_format)
    for target, *parts in zip(_blocks(out), *(_blocks(x) for x in leaves), strict=True):
        target.copy_(op(*(x.double() for x in parts)))
    return out
