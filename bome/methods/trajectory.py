"""The inner loop with its states (θ, buffers), for methods that look back along it."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from bome._typing import Leaves
from bome.errors import ProblemError
from bome.inner import DifferentiableMap, InnerMap
from bome.oracles.base import Oracle
from bome.problem import Problem
from bome.solver import Solver


def trajectory(
    oracle: Oracle, v: Leaves, theta: Leaves, inner: DifferentiableMap, batches: Sequence[Any], keep: int
) -> list[Leaves]:
    """The last `keep` of the T + 1 states (θ, buffers) that T inner steps from θ pass through, oldest first.

    T evaluations of g; no graph is kept. The last of `batches` serves all further steps.
    """
    n = len(theta)
    states = deque([inner.join(theta, inner.start(theta))], maxlen=keep)
    for t in range(inner.steps):
        s = states[-1]
        g = oracle.inner(v, s[:n], batches[min(t, len(batches) - 1)], wrt="theta")
        s = inner.step_state(s, g.grad.theta)
        states.append(projected(oracle.problem, s[:n]) + s[n:])
    return list(states)


def projected(problem: Problem, theta: Leaves) -> Leaves:
    """θ, projected."""
    return problem.project_theta(theta)


def check_steps(method: str, inner: InnerMap) -> None:
    """Refuse an inner map that has no single steps."""
    if isinstance(inner, Solver):
        raise ProblemError(f"{method} takes single inner steps, which a Solver does not have: use bome, pbgd or aid-cg")


def check_differentiable(method: str, inner: InnerMap) -> None:
    """Refuse an inner map that cannot be differentiated through."""
    check_steps(method, inner)
    if not isinstance(inner, DifferentiableMap):
        raise ProblemError(f"{method} needs a differentiable inner map: GradientDescent or AdamDescent, got {inner!r}")
