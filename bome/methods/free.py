"""The entries of θ that no bound holds: over them alone implicit methods solve their linear system.

Where θ*(v) is at a bound it does not move with v, and ∇_θ g is not 0. So with A the entries that inner steps have left
at a bound, θ*(v) has the derivative −H⁻¹Bᵀ of the other entries, and none in A: z_A = 0. Sets that are no boxes have
no such entries; there one differentiates the projection, as `aid-fp`, `itd` and `reverse` do.
"""

import torch

from bome._typing import Leaves
from bome.core.ranks import local, sharded_like
from bome.problem import Problem


class Free:
    """The free entries of θ at a point.

    Args:
        problem: whose sets there are.
        theta: θ after inner steps, which are projected.
    """

    def __init__(self, problem: Problem, theta: Leaves) -> None:
        self._held: list[torch.Tensor | None] = []
        rules = problem.project_theta
        bounds = rules.bounds(theta) if rules else (None,) * len(theta)
        for x, limits in zip(theta, bounds, strict=True):
            low, high = (torch.as_tensor(y).to(local(x)) for y in map(_local, limits or (-torch.inf, torch.inf)))
            self._held.append((local(x) <= low) | (local(x) >= high) if limits is not None else None)

    def __call__(self, leaves: Leaves) -> Leaves:
        """The same with 0 in the place of entries that are at a bound."""
        pairs = zip(leaves, self._held, strict=True)
        return tuple(x if held is None else sharded_like(torch.where(held, 0.0, local(x)), x) for x, held in pairs)


def refuse_other_sets(problem: Problem) -> str | None:
    """For methods that take ∇_θ g = 0 for the condition of the inner problem, on free entries."""
    rules = problem.project_theta
    if not rules or all(limits is not None for limits in rules.bounds(problem.theta.leaves)):
        return None
    return "of the sets of theta it knows boxes only: use bome, itd, reverse or aid-fp"


def _local(bound: "float | torch.Tensor") -> "float | torch.Tensor":
    return local(bound) if isinstance(bound, torch.Tensor) else bound
