"""Trials: a method on a toy problem from one or several starts, measured alike for all methods."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.optim import SGD

from bome._typing import Loss
from bome.core.threads import one_thread
from bome.core.trees import Pair
from bome.errors import NonFiniteError
from bome.inner import GradientDescent
from bome.loop import run
from bome.methods import Batched, Compiled, Method
from bome.oracles.base import Needs
from bome.problem import Problem, either
from bome.runs.names import METHODS
from bome.runs.plan import build
from bome.stopping import MaxSteps
from bome.tasks import TASKS, Task

EPS_BSG1 = {"coreset": 1e-50, "minimax": 1e-50, "lls": 1e-8}
"""What the authors add to ‖g_θ‖² in BSG-1, by task."""

EARLY = 60
"""The first so many steps are all measured, as most of a path is run through in them."""

Form = Literal["published", "default"]
"""A method as its paper has it (our default), or as the authors of the BOME paper ran it."""


@dataclass(frozen=True)
class Trial:
    """What is run.

    Attributes:
        name: of its file, without a suffix.
        task: "coreset", "minimax" or "lls".
        variant: of the task.
        method: its name in `bome ls`.
        form: "published" or "default".
        steps: outer steps.
        starts: of the task; several of a first-order method run as one batch.
        factor: multiplies f, to separate the paper's scale of f from its other constants.
        inner_steps: T; by default as the task has it.
        lr: all three step sizes; by default as the task has them.
        inner_lr: α, where it differs from them.
        coefficients: the method's own settings, where they differ from those of its form.
        rows: about how many points of the path are measured, beside the early ones and the last.
        compiled: whether a batch of starts has its step traced, which pays for thousands of steps.
    """

    name: str
    task: str
    variant: str
    method: str
    form: Form
    steps: int
    starts: tuple[str, ...] = ("a",)
    factor: float = 1.0
    inner_steps: int | None = None
    lr: float | None = None
    inner_lr: float | None = None
    coefficients: tuple[tuple[str, float], ...] = ()
    rows: int = 250
    compiled: bool = True


@dataclass(frozen=True)
class Trace:
    """The path from one start; all lists have one entry per measured point, the last one being the end.

    Attributes:
        steps: outer steps done.
        seconds: CPU time of these steps; of all starts together where they ran as a batch.
        units: gradient-equivalents spent: evaluations of f and g count 1, second-order products 2.
        v: entries of v.
        theta: entries of θ.
        ahead: entries of θ^(T), T plain gradient steps on g(v, ·) from θ.
        f: the outer loss (with the task's own factor).
        g: the inner loss.
        q: g(v, θ) − g(v, θ^(T)).
        distance: to the optimum.
        diverged: whether NaN or infinity ended it before the last step.
    """

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    v: list[list[float]] = field(default_factory=list)
    theta: list[list[float]] = field(default_factory=list)
    ahead: list[list[float]] = field(default_factory=list)
    f: list[float] = field(default_factory=list)
    g: list[float] = field(default_factory=list)
    q: list[float] = field(default_factory=list)
    distance: list[float] = field(default_factory=list)
    diverged: bool = False

    def column(self, name: Literal["v", "theta", "ahead"], entry: int) -> list[float]:
        """One entry of a variable along the path."""
        return [point[entry] for point in getattr(self, name)]


Traces = dict[str, Trace]
"""The traces of a trial by start."""


def perform(trial: Trial) -> Traces:
    """Run a trial with one thread, which for tensors of a few entries is the fastest."""
    with one_thread():
        tasks = [TASKS[trial.task](variant=trial.variant, start=start) for start in trial.starts]
        method = make_method(trial, tasks[0])
        if len(tasks) > 1 and method.requires == Needs.FIRST_ORDER:
            return dict(zip(trial.starts, _run(trial, tasks, method), strict=True))
        return {task.start: _run(trial, [task], method)[0] for task in tasks}


def make_method(trial: Trial, task: Task) -> Method:
    """The method with the settings of its form, and those of the trial."""
    kind = METHODS[trial.method]
    values: dict[str, Any] = dict(kind.variants.get("paper", {}))
    if trial.form == "published":
        values |= {**kind.variants.get("published", {}), **task.published.get(trial.method, {})}
        values |= {"eps": EPS_BSG1[trial.task]} if trial.method == "bsg1" else {}
    ahead = _look_ahead(trial, task)
    steps = max(trial.steps, task.settings.steps)  # BVFSM's constant schedule means those of the whole protocol
    settings = replace(task.settings, steps=steps, inner_steps=ahead.steps, inner_lr=ahead.lr)
    return build(kind, settings, {**values, **dict(trial.coefficients)})


def units(evaluations: Mapping[str, int]) -> float:
    """Gradient-equivalents: a Hessian-vector or cross product costs about two gradients."""
    return sum(n * (1 if kind in ("f", "g") else 2) for kind, n in evaluations.items())


def _look_ahead(trial: Trial, task: Task) -> GradientDescent:
    settings = task.settings
    lr = trial.inner_lr or trial.lr or settings.inner_lr
    return GradientDescent(lr, trial.inner_steps or settings.inner_steps)


def _run(trial: Trial, tasks: list[Task], method: Method) -> list[Trace]:
    """The loop around one task, or around a batch of them that differ in their starts only."""
    task, batch = tasks[0], len(tasks) > 1
    problem = _stacked(tasks, trial.factor) if batch else _scaled(task.problem, trial.factor)
    observer = _Observer(trial, tasks, problem, batch)
    solver = Batched(method) if batch else method
    if batch and trial.compiled:
        torch.compiler.reset()  # so that the traces of earlier trials do not count against torch's limit
        solver = Compiled(solver, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that g rises along a look-ahead is seen in the figures
        try:
            result = run(
                problem,
                solver,
                outer_opt=SGD(problem.v.leaves, trial.lr or task.settings.outer_lr),
                inner_opt=SGD(problem.theta.leaves, trial.lr or task.settings.theta_lr),
                stop=MaxSteps(trial.steps),
                oracle="func" if batch else "autograd",
                observe=observer,
                log_every=1,
                refit=False,
            )
        except NonFiniteError as error:
            return observer.traces(None, error.step)
    alive = result.state["state"]["alive"][0].tolist() if batch else [True]
    return observer.traces(result.evaluations, trial.steps, alive)


def _scaled(problem: Problem, factor: float) -> Problem:
    """The problem with f multiplied by a number."""
    if factor == 1:
        return problem
    return Problem(
        _times(problem.outer, factor), problem.inner, problem.v.value, problem.theta.value,
        problem.project_v, problem.project_theta,
    )  # fmt: skip


def _stacked(tasks: list[Task], factor: float) -> Problem:
    """One problem whose variables hold those of all tasks along a first dimension."""
    first = tasks[0].problem
    v, theta = (
        torch.stack([getattr(task.problem, name).value for task in tasks]) for name in ("v", "theta")
    )  # fmt: skip
    return Problem(
        either(_times(first.outer, factor), v.dim() - 1),
        either(first.inner, v.dim() - 1),
        v,
        theta,
        first.project_v,
        first.project_theta,
    )


def _times(loss: Loss, factor: float) -> Loss:
    return lambda v, theta, batch: factor * loss(v, theta, batch)


class _Observer:
    """Measures all starts alike, whatever the method; the time this takes is not counted.

    The look-ahead is not projected, as in the authors' code.
    """

    def __init__(self, trial: Trial, tasks: list[Task], problem: Problem, batch: bool) -> None:
        self._every = max(1, trial.steps // trial.rows)
        self._calls = 0
        self._trial, self._tasks, self._batch = trial, tasks, batch
        self._inner = _look_ahead(trial, tasks[0])
        outer, inner = _times(tasks[0].problem.outer, trial.factor), tasks[0].problem.inner
        self._f = vmap(lambda v, theta: outer(v, theta, None))
        self._g = vmap(lambda v, theta: inner(v, theta, None))
        self._slope = vmap(grad(lambda theta, v: inner(v, theta, None)))
        self._rows: list[dict[str, Any]] = []
        self._cpu = 0.0
        self._resumed = time.process_time()

    def __call__(self, problem: Problem) -> dict[str, float]:
        """Called by the loop before every step, and at the end."""
        k, self._calls = self._calls, self._calls + 1
        if k > min(EARLY, self._trial.rows) and k % self._every and k < self._trial.steps:
            return {}
        self._cpu += time.process_time() - self._resumed if self._rows else 0.0
        v, theta = (leaves[0] if self._batch else leaves[0][None] for leaves in problem.point)
        ahead = theta
        for _ in range(self._inner.steps):
            ahead = ahead - self._inner.lr * self._slope(ahead, v)
        g = self._g(v, theta)
        self._rows.append(
            {
                "steps": k,
                "seconds": self._cpu,
                "v": v.reshape(len(v), -1).tolist(),
                "theta": theta.reshape(len(v), -1).tolist(),
                "ahead": ahead.reshape(len(v), -1).tolist(),
                "f": self._f(v, theta).tolist(),
                "g": g.tolist(),
                "q": (g - self._g(v, ahead)).tolist(),
                "distance": [self._distance(v[i], theta[i]) for i in range(len(v))],
            }
        )
        self._resumed = time.process_time()
        return {}

    def traces(self, evaluations: Mapping[str, int] | None, steps: int, alive: Sequence[bool] = ()) -> list[Trace]:
        """What was seen, by start; without `alive` all of them diverged."""
        each = math.nan if evaluations is None else units(evaluations) / max(steps, 1)
        at, seconds = ([row[name] for row in self._rows] for name in ("steps", "seconds"))
        traces = []
        for i, lives in enumerate(alive or [False] * len(self._tasks)):
            columns = {
                name: [row[name][i] for row in self._rows] for name in self._rows[0] if name not in ("steps", "seconds")
            }
            traces.append(Trace(at, seconds, [each * k for k in at], **columns, diverged=not lives))
        return traces

    def _distance(self, v: Tensor, theta: Tensor) -> float:
        optimum = self._tasks[0].optimum
        return math.nan if optimum is None else optimum.distance(Pair((v,), (theta,)))


def restored(stored: dict[str, Any]) -> Traces:
    """The traces of a trial as they are stored."""
    return {start: Trace(**trace) for start, trace in stored.items()}
