"""The checks of a task catch what they are there to catch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bome import testing
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.problem import Problem
from bome.tasks import Task, lls
from bome.testing import check_task, task_checks

Change = Callable[[Task], Task]


def changed(change: Change) -> testing.TaskFunction:
    """The task `lls`, with something changed."""

    def task(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
        return change(lls(variant, start, seed))

    return task


def without_seed(variant: str = "code", start: str = "a") -> Task:
    return lls(variant, start)


def accepts_any_variant(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
    return lls("code", start, seed)


_shared = torch.zeros(2, dtype=torch.float64)


def _problem(task: Task, **changes: Any) -> Task:
    parts = {"outer": task.problem.outer, "inner": task.problem.inner, "theta": torch.zeros(2, dtype=torch.float64)}
    return replace(task, problem=Problem(**{**parts, "v": torch.tensor(0.0, dtype=torch.float64), **changes}))


def _nan(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (v + theta.sum()) * torch.nan


def _optimum(task: Task, **changes: Any) -> Task:
    assert task.optimum is not None
    return replace(task, optimum=replace(task.optimum, **changes))


def _point(v: float, theta: float) -> Pair:
    one = torch.ones((), dtype=torch.float64)
    return Pair((v * one,), (theta * one.expand(2).clone(),))


BROKEN: list[tuple[testing.TaskFunction, str]] = [
    (without_seed, "check_it_is_a_function_of_variant_start_and_seed"),
    (changed(lambda task: replace(task, name="No Name")), "check_it_is_a_function_of_variant_start_and_seed"),
    (changed(lambda task: replace(task, variant="other")), "check_it_is_a_function_of_variant_start_and_seed"),
    (accepts_any_variant, "check_unknown_names_are_refused"),
    (changed(lambda task: _problem(task, theta=_shared)), "check_variables_are_fresh"),
    (changed(lambda task: _problem(task, theta=torch.rand(2).double())), "check_variables_are_fresh"),
    (changed(lambda task: replace(task, settings=replace(task.settings, outer_lr=-1.0))), "check_settings_are_valid"),
    (changed(lambda task: replace(task, settings=replace(task.settings, inner_steps=0))), "check_settings_are_valid"),
    (changed(lambda task: _problem(task, outer=_nan)), "check_problem_is_sound"),
    (changed(lambda task: _problem(task, inner=lambda v, theta, batch: v.sum())), "check_problem_is_sound"),
    (
        changed(lambda task: _problem(task, project_v=torch.zeros_like, project_theta=torch.zeros_like)),
        "check_two_steps_can_be_made",
    ),
    (
        changed(lambda task: replace(task, observe=lambda point: {"v": point.v[0]})),  # type: ignore[dict-item]
        "check_observations_are_numbers",
    ),
    (
        changed(lambda task: replace(task, observe=lambda point: {"v": float(point.v[0].add_(1))})),
        "check_observations_are_numbers",
    ),
    (
        changed(lambda task: replace(task, solve_inner=lambda v, theta: (theta[0] + 1,))),
        "check_the_inner_solution_is_one",
    ),
    (changed(lambda task: _optimum(task, f=0.1)), "check_the_optimum_is_one"),
    (changed(lambda task: _optimum(task, distance=lambda point: -1.0)), "check_the_optimum_is_one"),
    (changed(lambda task: _optimum(task, point=_point(2.0, 2.0))), "check_the_optimum_is_one"),
    (
        changed(lambda task: _optimum(task, f=2.5, distance=lambda _: 0.0, point=_point(3.0, 1.0))),
        "check_the_optimum_is_one",
    ),
    (
        changed(lambda task: _optimum(task, f=1.0, distance=lambda _: 0.0, point=_point(2.0, 2.0))),
        "check_the_optimum_is_one",
    ),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{name}-{i}" for i, (_, name) in enumerate(BROKEN)])
def test_a_broken_task_fails_the_check_that_is_there_for_it(broken: testing.TaskFunction, name: str) -> None:
    with pytest.raises(AssertionError, match=f"fails {name}: "):
        check_task(broken)


def test_a_sound_task_passes() -> None:
    check_task(changed(lambda task: task))


def test_an_error_is_told_with_the_name_of_the_check() -> None:
    def task(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
        raise ProblemError("no luck")

    with pytest.raises(AssertionError, match=r"task fails check_it_is_a_function.*: ProblemError: no luck"):
        check_task(task)


def test_the_battery_has_every_check_of_its_file_and_each_has_a_docstring() -> None:
    defined = {name for name in vars(task_checks) if name.startswith("check_")}
    defined -= {"check_task", "check_problem", "check_settings"}
    assert sorted(check.__name__ for check in testing.TASK_CHECKS) == sorted(defined)
    assert all(check.__doc__ for check in testing.TASK_CHECKS)
