"""A problem of BOLIB, whose solution is known."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome.constraints import Constraint
from bome.problem import Problem
from bome.tasks.bolib.record import Formulas, Numbers, Record, point
from bome.tasks.task import Optimum, Settings, Task, norm

PREFIX = "bolib-"
"""The names of these tasks begin with it."""

SETTINGS = Settings(steps=400, inner_steps=10, inner_lr=0.1, outer_lr=0.1, theta_lr=0.1)
"""What one would take first; 400 steps of BOME are 4,800 evaluations."""


def name_of(record: Record) -> str:
    """The name of a problem on the command line."""
    return PREFIX + record.name.lower()


def task_of(record: Record) -> Callable[..., Task]:
    """The function that makes the task of a record."""

    def bolib(variant: str = "code", start: str = "library", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
        """A problem of the library BOLIB.

        Args:
            variant: "code".
            start: "library", the starting point that comes with the problem.
            seed: without effect, the task has no random part.
            dtype: of the variables.
        """
        choose("variant of BOLIB", variant, {"code": True})
        choose("start of BOLIB", start, {"library": True})
        best = [point(z).to(dtype) for z in record.solution]
        return Task(
            name=name_of(record),
            variant=variant,
            start=start,
            problem=problem_of(record, dtype),
            settings=SETTINGS,
            optimum=Optimum(
                f=record.optimum,
                distance=lambda at: norm(at.v[0] - best[0], at.theta[0] - best[1]),
                text=f"f = {record.optimum:g} at v = {_text(record.solution[0])}, θ = {_text(record.solution[1])}",
            ),
        )

    bolib.__doc__ = f"{record.name}: {record.source}.\n" + (bolib.__doc__ or "").partition("\n")[2]
    return bolib


def problem_of(record: Record, dtype: torch.dtype = torch.float64) -> Problem:
    """The problem with fresh variables at the library's start."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return record.f(v, theta)

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return record.g(v, theta)

    v, theta = (point(z).to(dtype) for z in record.start)
    return Problem(
        outer,
        inner,
        v,
        theta,
        project_v=record.x_set,
        project_theta=record.y_set,
        inner_constraints=_constraint(record.h),
        outer_constraints=_constraint(record.H),
    )


def _constraint(formulas: Formulas | None) -> Constraint | None:
    return None if formulas is None else lambda v, theta, batch: torch.stack(formulas(v, theta))


def _text(numbers: Numbers) -> str:
    texts = [f"{x:.4g}" for x in numbers]
    few = texts if len(texts) <= 5 else [*texts[:2], "…", texts[-1]]
    return few[0] if len(few) == 1 else f"({', '.join(few)})"
