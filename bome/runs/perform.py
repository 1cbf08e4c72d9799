"""Run a plan: the task's variables, its optimisers and schedulers, and the loop around the method."""

import math
from collections.abc import Callable

from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome._checks import check_decay, check_positive
from bome._typing import Leaves
from bome.errors import ProblemError
from bome.loop import Record, Result, run
from bome.oracles import OracleName
from bome.problem import Problem
from bome.runs.plan import Plan
from bome.stopping import MaxSteps, Progress
from bome.tasks.task import Settings

SMALL = 4
"""A variable with at most this many entries has each of them logged, for figures of its path."""

LIMITS = {"steps": 100_000_000, "inner_steps": 1_000_000}
"""The largest sensible values; beyond them a run would hardly end."""


def check_settings(settings: Settings) -> None:
    """Refuse settings that cannot work, before anything is computed or written."""
    MaxSteps(settings.steps)
    for name, largest in LIMITS.items():
        if getattr(settings, name) > largest:
            raise ProblemError(f"{name} must be at most {largest:,}, got {getattr(settings, name):,}")
    check_positive("outer_lr (ξ_v)", settings.outer_lr)
    check_positive("theta_lr (ξ_θ)", settings.theta_lr)
    check_decay("momentum", settings.momentum)
    if not 0 <= settings.decay < math.inf:
        raise ProblemError(f"decay must be 0 (constant steps) or a positive number of steps, got {settings.decay!r}")


def default_log_every(steps: int) -> int:
    """Steps between rows of a history of about 500 rows."""
    return max(1, steps // 500)


def solve(
    plan: Plan,
    *,
    log_every: int | None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
    oracle: OracleName = "auto",
) -> Result:
    """Run a plan by gradient descent with the settings' step sizes, momentum and decay.

    The history also has the distance to the optimum where that is known, and the entries of small variables as columns
    `v_0`, `v_1`, ..., `theta_0`, ...

    Args:
        plan: task, method and settings.
        log_every: steps between rows of the history; by default such that it has about 500.
        record: where to write history and checkpoints.
        progress: called after every step.
        oracle: how to differentiate.
    """
    task, settings = plan.task, plan.settings
    check_settings(settings)
    outer_opt = SGD(task.problem.v.leaves, settings.outer_lr, momentum=settings.momentum)
    inner_opt = SGD(task.problem.theta.leaves, settings.theta_lr, momentum=settings.momentum)
    schedulers = []
    if settings.decay:
        schedulers = [
            LambdaLR(opt, lambda k: min(1.0, (settings.decay / (k + 1)) ** 0.5)) for opt in (outer_opt, inner_opt)
        ]

    def observe(problem: Problem) -> dict[str, float]:
        point = problem.point
        row = {**_entries("v", point.v), **_entries("theta", point.theta)}
        if task.optimum is not None:
            row["distance_to_optimum"] = task.optimum.distance(point)
        return row if task.observe is None else {**row, **task.observe(point)}

    return run(
        task.problem,
        plan.method,
        outer_opt=outer_opt,
        inner_opt=inner_opt,
        data=None if task.streams is None else task.streams(plan.method, settings),
        stop=MaxSteps(settings.steps),
        schedulers=schedulers,
        oracle=oracle,
        tuner=plan.tuner,
        observe=observe,
        log_every=log_every if log_every is not None else default_log_every(settings.steps),
        record=record,
        progress=progress,
        solve_inner=task.solve_inner,
    )


def _entries(name: str, leaves: Leaves) -> dict[str, float]:
    """The entries of a small variable by name; nothing for a large one."""
    if sum(leaf.numel() for leaf in leaves) > SMALL:
        return {}
    entries = [x for leaf in leaves for x in leaf.reshape(-1).tolist()]
    return {f"{name}_{i}": x for i, x in enumerate(entries)}
