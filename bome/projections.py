"""Projections onto simple sets, applied to each tensor of a variable after a step."""

import torch
from torch import Tensor

from bome._typing import Projection
from bome.errors import ProblemError


def box(low: float, high: float) -> Projection:
    """Entries between `low` and `high`."""
    if not low < high:
        raise ProblemError(f"box needs low < high, got [{low}, {high}]")
    return lambda x: x.clamp(low, high)


def nonnegative() -> Projection:
    """Entries of at least 0."""
    return lambda x: x.clamp(min=0)


def ball(radius: float) -> Projection:
    """Tensors of Euclidean norm at most `radius`; the norm is taken in float64, where no square overflows."""
    if not radius > 0:
        raise ProblemError(f"ball needs a positive radius, got {radius}")

    def project(x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, dtype=torch.float64)
        return (x * torch.where(norm > radius, radius / norm, 1.0)).to(x.dtype)

    return project


def simplex() -> Projection:
    """Rows (the last dimension) that are non-negative and sum to 1, by sorting (Held, Wolfe and Crowder, 1974).

    In float64, and relative to the largest entry of each row: the projection of x + c is that of x, and with entries of
    2^53 the sum of a row no longer feels the 1 that is taken from it.
    """

    def project(x: Tensor) -> Tensor:
        y = x.double()
        y = y - y.amax(dim=-1, keepdim=True)
        u = y.sort(dim=-1, descending=True).values
        excess = u.cumsum(dim=-1) - 1
        count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=torch.float64)
        support = (u * count > excess).sum(dim=-1, keepdim=True)
        shift = excess.gather(-1, support - 1) / support
        return (y - shift).clamp(min=0).to(x.dtype)

    return project
