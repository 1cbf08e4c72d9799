"""Which of some linear constraints hold with equality at the nearest point that satisfies them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array


class ActiveRows(torch.autograd.Function):
    """For a point x and constraints C x (=, then ≤) c: the matrix M of the projection x − M (C x − c).

    It is the pseudo-inverse of the rows that hold with equality at the projection, with zeros for the others. It is the
    same all around x, so that no derivative goes through it.
    """

    @staticmethod
    def forward(x: Tensor, rows: Tensor, limits: Tensor, equalities: int) -> Tensor:
        """M; C and c are `rows` and `limits`, the equalities first."""
        found = _feet(x.detach().cpu().numpy(), rows.cpu().numpy(), limits.cpu().numpy(), equalities)
        return torch.from_numpy(found).to(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing to keep."""
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, ...]:
        """No derivative."""
        return None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, rows: Tensor, limits: Tensor, equalities: int) -> tuple[Tensor, int]:
        """Point by point: each has its own active rows."""
        each = [ActiveRows.apply(y, rows, limits, equalities) for y in x.movedim(in_dims[0], 0)]  # type: ignore[no-untyped-call]
        return torch.stack(each), 0


def _feet(x: Array, rows: Array, limits: Array, equalities: int) -> Array:
    """As least distance programming (Lawson and Hanson, 1974, chapter 23), in the space that the equalities leave.

    The step z = N w to the projection solves min ‖w‖ subject to A N w ≤ −r, r the residuals; its multipliers are those
    of the non-negative least squares min ‖(Gᵀ; rᵀ) u − (0, .., 0, 1)‖, G = −A N, up to a factor.
    """
    from scipy.optimize import nnls  # takes a while, and only polyhedra need it

    equal, most = rows[:equalities], rows[equalities:]
    foot = np.linalg.pinv(equal)
    moved = x - foot @ (equal @ x - limits[:equalities])
    r = most @ moved - limits[equalities:]
    noise = 8 * np.finfo(np.float64).eps * (np.abs(most) @ np.abs(moved) + np.abs(limits[equalities:]))
    active = np.zeros(len(most), dtype=bool)
    if (r > noise).any():
        tangent = np.eye(len(x)) - foot @ equal
        columns = np.vstack([-(most @ tangent).T, r[None] / r.max()])
        lengths = np.linalg.norm(columns, axis=0)
        u, _ = nnls(columns / np.where(lengths > 0, lengths, 1.0), np.eye(len(columns))[-1])
        active = u > 0
    held = np.concatenate([np.ones(equalities, dtype=bool), active])
    feet = np.zeros((len(x), len(rows)))
    feet[:, held] = np.linalg.pinv(rows[held])
    return feet
