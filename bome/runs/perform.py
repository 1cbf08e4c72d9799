"""Perform a plan: the loop around its method, and what is observed on the way."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bome._typing import Leaves
from bome.loop import Record, Result, run
from bome.oracles import OracleName
from bome.problem import Problem
from bome.runs.plan import Plan
from bome.stopping import MaxSteps, Progress
from bome.tasks.task import Task

SMALL = 4
"""A variable with at most this many entries has each of them logged, for figures of its path."""


@dataclass(frozen=True)
class Performance(Result):
    """The outcome of a plan.

    Attributes:
        observed: what the task shows of the end, such as accuracies; also part of the last row of the history.
    """

    observed: dict[str, float] = field(default_factory=dict)


def default_log_every(steps: int) -> int:
    """Steps between rows of a history of about 500 rows."""
    return max(1, steps // 500)


def perform(
    plan: Plan,
    *,
    log_every: int | None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
    oracle: OracleName = "auto",
    refit: bool | None = None,
    keep_best: bool = False,
) -> Performance:
    """Run a plan by gradient descent with the settings' step sizes, momentum and decay.

    The history also has the distance to the optimum where that is known, and the entries of small variables as columns
    `v_0`, `v_1`, ..., `theta_0`, ...

    Args:
        plan: task, method and settings.
        log_every: steps between rows of the history; by default such that it has about 500.
        record: where to write history and checkpoints.
        progress: called after every step.
        oracle: how to differentiate.
        refit: whether θ is trained anew with the last v; by default where that costs little.
        keep_best: whether the v with the lowest F(v) is taken, not the last.
    """
    task, settings = plan.task, plan.settings
    observer = _Observer(task)
    result = run(
        task.problem,
        plan.method,
        **plan.optimisers()._asdict(),
        data=None if task.streams is None else task.streams(plan.method, settings),
        stop=MaxSteps(settings.steps),
        oracle=oracle,
        tuner=plan.tuner,
        observe=observer,
        log_every=log_every if log_every is not None else default_log_every(settings.steps),
        record=record,
        progress=progress,
        solve_inner=task.solve_inner,
        refit=refit,
        keep_best=keep_best,
    )
    return Performance(**vars(result), observed=observer.observed)


class _Observer:
    """What is logged beside the numbers of the method; it remembers what it saw last, which is the end of a run."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.observed: dict[str, float] = {}

    def __call__(self, problem: Problem) -> dict[str, float]:
        task, point = self._task, problem.point
        row = {**_entries("v", point.v), **_entries("theta", point.theta)}
        if task.optimum is not None:
            row["distance_to_optimum"] = task.optimum.distance(point)
        self.observed = {} if task.observe is None else task.observe(point)
        return {**row, **self.observed}


def _entries(name: str, leaves: Leaves) -> dict[str, float]:
    """The entries of a small variable by name; nothing for a large one."""
    if sum(leaf.numel() for leaf in leaves) > SMALL:
        return {}
    entries = [x for leaf in leaves for x in leaf.reshape(-1).tolist()]
    return {f"{name}_{i}": x for i, x in enumerate(entries)}
