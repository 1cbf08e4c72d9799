"""Arithmetic on tuples of tensors, with products accumulated in float64.

The multiplier λ is a quotient of inner products, so these are taken in float64 whatever the dtype of the tensors: their
squares then neither vanish nor overflow for entries between 1e-150 and 1e150. Large tensors are converted block by
block, so that no float64 copy of a whole variable ever exists. Of tensors that are sharded over ranks each rank works
on its part; products are summed over the ranks, and are bitwise equal on all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.ranks import layout, local, sharded_like, summed

BLOCK = 1 << 15
"""Entries converted to float64 at a time: 256 KB, which stay in the cache and add little to the peak of memory."""


class Pair(NamedTuple):
    """A point, gradient or direction in the joint space of (v, θ)."""

    v: Leaves
    theta: Leaves


def dot(a: Leaves, b: Leaves) -> Tensor:
    """⟨a, b⟩ in float64, as a 0-d tensor."""
    return _sums(lambda p, q: (torch.dot(p, q),), a, b)[0]


def products(a: Leaves, b: Leaves, weights: Sequence[float | Tensor] | None = None) -> Leaves:
    """⟨a, Sa⟩, ⟨a, Sb⟩ and ⟨b, Sb⟩ in float64, with S a weight for each leaf, by one pass over a and b."""
    return _sums(lambda p, q: (torch.dot(p, p), torch.dot(p, q), torch.dot(q, q)), a, b, weights)


def number(value: float, beside: Tensor) -> Tensor:
    """A number as a 0-d tensor in float64 on the device of another tensor; never sharded."""
    return local(beside).new_full((), value, dtype=torch.float64)


def _sums(
    of: Callable[[Tensor, Tensor], Leaves], a: Leaves, b: Leaves, weights: Sequence[float | Tensor] | None = None
) -> Leaves:
    """Numbers of each block of the leaves in float64, summed; what is sharded is summed by one message for all."""
    if not a:
        zero = torch.zeros(1, dtype=torch.float64)
        return of(zero, zero)
    alike: dict[tuple[Any, float | Tensor], list[Leaves]] = {}
    for x, y, weight in zip(a, b, weights or (1.0,) * len(a), strict=True):
        alike.setdefault((layout(x), weight), []).append((local(x), local(y)))
    parts = []
    for (over, weight), leaves in alike.items():
        found = zip(*(of(p.double(), q.double()) for p, q in _side_by_side(leaves)), strict=True)
        parts.append((over, weight * torch.stack([torch.stack(numbers).sum() for numbers in found])))
    return tuple(over_ranks(parts).unbind())


def over_ranks(parts: Iterable[tuple[Any, Tensor]]) -> Tensor:
    """The sum of some numbers, each with the `layout` of the tensor it was made of; one message for each layout."""
    sums: dict[Any, Tensor] = {}
    for over, each in parts:
        sums[over] = sums[over] + each if over in sums else each
    return torch.stack([each if over is None else summed(each, over) for over, each in sums.items()]).sum(0)


def sub(a: Leaves, b: Leaves) -> Leaves:
    """a − b."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def add(a: Leaves, b: Leaves) -> Leaves:
    """a + b."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def scale(alpha: float | Tensor, a: Leaves) -> Leaves:
    """α a, formed in float64 and cast back, since α and a may be of very different size."""
    if not a:
        return ()
    factor = _factor(alpha, a[0])
    return tuple(_in_float64(lambda p: factor * p, x) for x in a)


def axpy(alpha: float | Tensor, x: Leaves, y: Leaves) -> Leaves:
    """α x + y, formed in float64 and cast back to the dtype of y."""
    if not y:
        return ()
    factor = _factor(alpha, y[0])
    return tuple(_in_float64(lambda p, q: torch.addcmul(q, p, factor), p, q) for p, q in zip(x, y, strict=True))


def _factor(alpha: float | Tensor, beside: Tensor) -> Tensor:
    """α as a tensor of one entry: unlike a number or a 0-d tensor it raises its partners to float64."""
    return (alpha.double() if isinstance(alpha, Tensor) else number(alpha, beside)).reshape(1)


def where(condition: Tensor, a: Leaves, b: Leaves) -> Leaves:
    """a if a 0-d condition holds, else b."""
    return tuple(sharded_like(torch.where(condition, local(x), local(y)), y) for x, y in zip(a, b, strict=True))


def clone(a: Leaves) -> Leaves:
    """Copies, detached from any graph."""
    return tuple(x.detach().clone() for x in a)


def zeros_like(a: Leaves) -> Leaves:
    """Zeros of the same shapes and dtypes."""
    return tuple(torch.zeros_like(x) for x in a)


def joined(a: Pair) -> Tensor:
    """All entries of v and θ in one vector."""
    return torch.cat([x.reshape(-1) for x in a.v + a.theta])


def parted(x: Tensor, like: Pair) -> Pair:
    """The entries of such a vector as tensors of these shapes and dtypes."""
    leaves = like.v + like.theta
    parts = torch.split(x, [leaf.numel() for leaf in leaves])
    new = tuple(part.reshape(leaf.shape).to(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True))
    return Pair(new[: len(like.v)], new[len(like.v) :])


def times(rows: Tensor, x: Tensor) -> Tensor:
    """The products of rows with a vector, or with each of other rows, in float64."""
    parts = zip(torch.split(rows, BLOCK, -1), torch.split(x, BLOCK, -1), strict=True)
    return torch.stack([a.double() @ b.double().mT if b.dim() == 2 else a.double() @ b.double() for a, b in parts]).sum(
        0
    )


def in_blocks(x: Tensor) -> Sequence[Tensor]:
    """The entries of a tensor in order, so many at a time as are converted to float64."""
    return torch.split(x.reshape(-1), BLOCK)


def _side_by_side(leaves: Iterable[Leaves]) -> Iterator[Leaves]:
    """The entries of some tensors each, in blocks: large tensors are split, small ones joined."""
    small: list[Leaves] = []
    room = BLOCK
    for parts in leaves:
        if parts[0].numel() > BLOCK:
            yield from zip(*map(in_blocks, parts), strict=True)
            continue
        if parts[0].numel() > room:
            yield _joined(small)
            small, room = [], BLOCK
        small.append(tuple(x.reshape(-1) for x in parts))
        room -= parts[0].numel()
    if small:
        yield _joined(small)


def _joined(leaves: Sequence[Leaves]) -> Leaves:
    return leaves[0] if len(leaves) == 1 else tuple(map(torch.cat, zip(*leaves, strict=True)))


def _in_float64(op: Callable[..., Tensor], *leaves: Tensor) -> Tensor:
    """op on the entries of the leaves, which gives float64, in the dtype of the last; by blocks where they are many."""
    parts = tuple(map(local, leaves))
    last = parts[-1]
    if last.numel() <= BLOCK:
        out = op(*parts).to(last.dtype).reshape(last.shape)
    else:
        out = torch.empty_like(last, memory_format=torch.contiguous_format)
        for target, *blocks in zip(in_blocks(out), *map(in_blocks, parts), strict=True):
            target.copy_(op(*blocks))
    return sharded_like(out, leaves[-1])
