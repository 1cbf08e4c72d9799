"""What a task is: a problem with its usual settings, and what is known of its solution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from bome._typing import Leaves
from bome.barrier import Phi
from bome.problem import Problem
from bome.trees import Pair


@dataclass(frozen=True)
class Settings:
    """The settings of a run that belong to no method in particular; a task has its own defaults.

    Attributes:
        steps: K, the number of outer steps.
        inner_steps: T, inner steps of each look-ahead.
        inner_lr: α, step size of the inner steps.
        outer_lr: ξ_v, step size of v.
        theta_lr: ξ_θ, step size of θ.
        eta: η, how strongly each step must decrease q̂.
        phi: "norm" for φ = η‖∇q̂‖², "gap" for φ = η q̂.
        momentum: of both outer optimisers.
        inner_momentum: of the look-ahead.
        decay: k0 > 0 makes all outer step sizes fall like √(k0 / (k + 1)) from step k0 on; 0 keeps them constant.
    """

    steps: int
    inner_steps: int
    inner_lr: float
    outer_lr: float
    theta_lr: float
    eta: float = 0.5
    phi: Phi = "norm"
    momentum: float = 0.0
    inner_momentum: float = 0.0
    decay: float = 0.0


@dataclass(frozen=True)
class Optimum:
    """What is known of the solution.

    Attributes:
        f: the optimal value of f.
        distance: how far a point is from the solution set.
        text: the solution in words or numbers, for people.
    """

    f: float
    distance: Callable[[Pair], float]
    text: str


@dataclass(frozen=True)
class Task:
    """A problem ready to run.

    Attributes:
        name: its name on the command line.
        variant: "code" (the authors' constants) or "paper" (as printed), or a name of the task's own.
        start: the name of the starting point.
        problem: the losses and fresh live variables.
        settings: the defaults of a run.
        optimum: what is known of the solution.
        solve_inner: θ*(v), or the minimum of g(v, ·) whose basin θ lies in; for exact certificates.
        published: settings of methods in the authors' runs of this task, by method: those of variants `published`.
    """

    name: str
    variant: str
    start: str
    problem: Problem
    settings: Settings
    optimum: Optimum | None = None
    solve_inner: Callable[[Leaves, Leaves], Leaves] | None = None
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def norm(*differences: torch.Tensor) -> float:
    """Euclidean norm of the concatenated tensors."""
    return float(torch.cat([d.reshape(-1) for d in differences]).norm())
