"""Arithmetic on tuples of tensors, with products accumulated in float64.

The multiplier λ is a quotient of inner products, so these are taken in float64 whatever the dtype of the tensors: their
squares then neither vanish nor overflow for entries between 1e-150 and 1e150. Large tensors are converted block by
block, so that no float64 copy of a whole variable ever exists.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves

BLOCK = 1 << 20
"""Entries converted to float64 at a time: 8 MB."""


class Pair(NamedTuple):
    """A point, gradient or direction in the joint space of (v, θ)."""

    v: Leaves
    theta: Leaves


def dot(a: Leaves, b: Leaves) -> Tensor:
    """⟨a, b⟩ in float64, as a 0-d tensor."""
    total = a[0].new_zeros((), dtype=torch.float64) if a else torch.zeros((), dtype=torch.float64)
    for x, y in zip(a, b, strict=True):
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


def _in_float64(op, *leaves: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    last = leaves[-1]
    if last.dtype == torch.float64:
        return op(*leaves)  # type: ignore[no-any-return]
    if last.numel() <= BLOCK:
        return op(*(x.double() for x in leaves)).to(last.dtype)  # type: ignore[no-any-return]
    out = torch.empty_like(last).reshape(-1)
    for target, *parts in zip(torch.split(out, BLOCK), *(_blocks(x) for x in leaves), strict=True):
        target.copy_(op(*(x.double() for x in parts)))
    return out.reshape(last.shape)
