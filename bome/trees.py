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
    for place, (a, b) in enumerate(pairs):
        scales = weights if weights is not None else (1.0,) * len(a)
        if not a:
            sums.setdefault(None, [torch.zeros((), dtype=torch.float64)] * len(pairs))
        for x, y, weight in zip(a, b, scales, strict=True):
            total = sums.setdefault(layout(x), [number(0, x)] * len(pairs))
            total[place] = _add_products(total[place], local(x), local(y), weight)
    parts = [totals if over is None else summed(torch.stack(totals), over).unbind() for over, totals in sums.items()]
    return tuple(sum(each[1:], each[0]) for each in zip(*parts, strict=True))


def number(value: float, beside: Tensor) -> Tensor:
    """A number as a 0-d tensor in float64 on the device of another tensor; never sharded."""
    return local(beside).new_full((), value, dtype=torch.float64)


def _add_products(total: Tensor, x: Tensor, y: Tensor, weight: float) -> Tensor:
    """total + weight ⟨x, y⟩."""
    if weight != 1.0:
        return total + weight * _add_products(number(0, x), x, y, 1.0)
    for p, q in zip(_blocks(x), _blocks(y), strict=True):
        total = total + torch.dot(p.double(), q.double())
    return total


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
