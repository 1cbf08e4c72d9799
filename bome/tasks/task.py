"""What a task is: a problem with its usual settings, and what is known of its solution."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.barrier import Phi
from bome.core.trees import Pair
from bome.data import Data
from bome.problem import Batches, Problem


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
        batch: samples in a minibatch of g; 0 for all of them.
        outer_batch: samples in a minibatch of f; 0 for all of them.
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
    batch: int = 0
    outer_batch: int = 0


@dataclass(frozen=True)
class Optimum:
    """What is known of the solution.

    Attributes:
        f: the optimal value of f.
        distance: how far a point is from the solution set.
        text: the solution in words or numbers, for people.
        point: a solution, by which `bome.testing.check_task` checks the others.
    """

    f: float
    distance: Callable[[Pair], float]
    text: str
    point: Pair | None = None


class Stack(NamedTuple):
    """Several tasks as one batch of runs.

    Attributes:
        problem: its variables hold those of all runs along a first dimension; the losses see one run.
        data: the batches of all runs.
        dims: of the batches, which parts have the dimension of the runs, as `torch.func.vmap` wants to be told.
        rows: the entries of v that belong to each run.
    """

    problem: Problem
    data: Data
    dims: Batches
    rows: tuple[Tensor, ...]

    def point(self, i: int) -> Pair:
        """The variables of one run."""
        v, theta = self.problem.point
        return Pair(tuple(x[i][self.rows[i]] for x in v), tuple(x[i] for x in theta))


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
        suggested: settings that methods need on this task beside its own, by method.
        streams: the batches for a method with these settings, drawn with a seed; by default both losses get `None`.
        observe: further quantities of a point, such as accuracies.
        resolve: θ*(v), the inner problem solved to its end from θ on, where that takes a while: once, after a run.
        stack: several tasks of this kind, with other seeds, as one batch of runs.
        seed: what was drawn with.
    """

    name: str
    variant: str
    start: str
    problem: Problem
    settings: Settings
    optimum: Optimum | None = None
    solve_inner: Callable[[Leaves, Leaves], Leaves] | None = None
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    suggested: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    streams: Callable[[Any, Settings], Data] | None = None
    observe: Callable[[Pair], dict[str, float]] | None = None
    resolve: Callable[[Leaves, Leaves], Leaves] | None = None
    stack: "Callable[[Sequence[Task]], Stack] | None" = None
    seed: int = 0

    def observe_afresh(self, point: Pair) -> dict[str, float]:
        """What is observed with the inner problem solved afresh: it shows what v alone is worth."""
        if self.resolve is None or self.observe is None:
            return {}
        return self.observe(Pair(point.v, self.resolve(point.v, point.theta)))


def norm(*differences: torch.Tensor) -> float:
    """Euclidean norm of the concatenated tensors."""
    return float(torch.cat([d.reshape(-1) for d in differences]).norm())
