r"""GDA: gradient descent-ascent for min-max problems, f = −g. It diverges where the coupling is bilinear.

    for k = 0, 1, ...
        1:  v_{k+1} = v_k − ξ f_v(v_k, θ_k),   θ_{k+1} = θ_k − ξ g_θ(v_k, θ_k) = θ_k + ξ f_θ(v_k, θ_k)

Cost per step: 1 evaluation of g and none of f, since f_v = −g_v. State: none. The outer batch is not used.

On f = vθ a step multiplies ‖(v, θ)‖ by √(1 + ξ²), so it grows like (1 + ξ²)^{k/2}: see `ogda` for the cure.

A problem is known to be min-max if its losses add up to 0 at its start and two points near it (they are called with the
batch None), or if it was declared as one, for losses that need data:

    Problem(outer=f, inner=negative(f), ...)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from bome._typing import Loss, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, scale
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles.base import Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class GDA(Method):
    """Simultaneous gradient descent on f in v and on g in θ."""

    name: ClassVar[str] = "gda"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse all but min-max problems."""
        return minimax_refusal(problem)

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step."""
        g = oracle.inner(*point, batches.inner[0])
        return Step(field(g.grad), state, Info(-g.value, g.value))  # line 1


def field(dg: Pair) -> Pair:
    """(f_v, g_θ) of a min-max problem, from ∇g."""
    return Pair(scale(-1.0, dg.v), dg.theta)


@dataclass(frozen=True)
class Negative:
    """−loss."""

    loss: Loss

    def __call__(self, v: Any, theta: Any, batch: Any) -> Tensor:
        """The negative of the loss."""
        return -self.loss(v, theta, batch)


def negative(loss: Loss) -> Loss:
    """−loss, recognisable as such: `Problem(outer=f, inner=negative(f), ...)` is a min-max problem."""
    return Negative(loss)


def minimax_refusal(problem: Problem) -> str | None:
    """Why a method for min-max problems cannot solve this one, or None."""
    if problem.v.table is not None:
        return "it needs a dense v, not a PerSample"
    declared = isinstance(problem.inner, Negative) and problem.inner.loss is problem.outer
    if declared or _opposite(problem):
        return None
    return (
        "it is for min-max problems, f = −g, only (where the losses need data, say inner=bome.methods.negative(outer))"
    )


def _opposite(problem: Problem) -> bool:
    """Whether f + g = 0 at the start and near it, to rounding."""
    buffers = {name: buffer.clone() for name, buffer in problem.buffers.items()}
    for stretch, shift in ((1.0, 0.0), (0.75, 0.125), (1.25, -0.0625)):
        v, theta = (tuple(stretch * x + shift for x in leaves) for leaves in problem.point)
        point = problem.project_v(v), problem.project_theta(theta)
        try:
            with torch.no_grad(), torch.random.fork_rng():
                f, g = (problem.loss(which, *point, None, dict(buffers)) for which in ("f", "g"))
        except Exception:  # whatever the losses raise without their data
            return False
        if not torch.isclose(f, -g, rtol=1e-6, atol=0.0):
            return False
    return True
