"""The battery of checks for authors of tasks.

    from bome.testing import check_task
    check_task(my_task)               # one AssertionError that names the check, or nothing

A task is given as the function `(variant, start, seed)` that makes it, as it stands in the registry. Another variant is
checked as `functools.partial(my_task, variant="paper")`. Every check makes the task anew. `TASK_CHECKS` lists all of
them, so that pytest can run each on its own.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch.optim import SGD

from bome._typing import Leaves
from bome.core.trees import Pair, clone, sub
from bome.data import Data
from bome.errors import BilevelError, ProblemError
from bome.inner import GradientDescent
from bome.methods import BOME
from bome.oracles import AutogradOracle
from bome.problem import Batches
from bome.runs.plan import check_settings
from bome.stepper import Stepper
from bome.tasks import Task
from bome.testing.beds import require, same
from bome.testing.problem_checks import check_problem

TaskFunction: TypeAlias = Callable[..., Task]
"""Makes a task with fresh variables: `(variant, start, seed)`, all with defaults."""

TaskCheck: TypeAlias = Callable[[TaskFunction], None]


def check_task(task: TaskFunction) -> None:
    """Run all checks of `TASK_CHECKS` on a task.

    Args:
        task: the function that makes it.

    Raises:
        AssertionError: a check failed; the message names it.
    """
    name = getattr(task, "__name__", repr(task))
    for check in TASK_CHECKS:
        try:
            check(task)
        except AssertionError as error:
            raise AssertionError(f"{name} fails {check.__name__}: {error}") from None
        except Exception as error:
            raise AssertionError(f"{name} fails {check.__name__}: {type(error).__name__}: {error}") from error


def check_it_is_a_function_of_variant_start_and_seed(make: TaskFunction) -> None:
    """It has these three parameters and a docstring, and makes a `Task` that knows its names."""
    parameters = inspect.signature(make).parameters
    for name in ("variant", "start", "seed"):
        require(name in parameters, f"it has no parameter {name!r}")
        require(parameters[name].default is not inspect.Parameter.empty, f"its parameter {name!r} has no default")
    task = make()
    require(isinstance(task, Task), f"it makes a {type(task).__name__}, no Task")
    require(re.fullmatch(r"[a-z][a-z0-9-]*", task.name) is not None, f"name {task.name!r} is no name of a task")
    for name in ("variant", "start"):
        default = parameters[name].default
        require(getattr(task, name) == default, f"its {name} is {getattr(task, name)!r}, the default is {default!r}")


def check_unknown_names_are_refused(make: TaskFunction) -> None:
    """An unknown variant or start is refused by a ProblemError."""
    for name in ("variant", "start"):
        try:
            make(**{name: "no-such-name"})
        except ProblemError:
            continue
        raise AssertionError(f"the {name} 'no-such-name' is accepted")


def check_variables_are_fresh(make: TaskFunction) -> None:
    """Made twice with one seed it has the same values, in memory of its own."""
    one, other = (_variables(make(seed=0)) for _ in range(2))
    require(same(one, other), "made twice with the same seed it starts at different points")
    shared = {x.untyped_storage().data_ptr() for x in one} & {x.untyped_storage().data_ptr() for x in other}
    require(not shared, "made twice it shares the memory of its variables")


def check_settings_are_valid(make: TaskFunction) -> None:
    """A run accepts its settings."""
    task = make()
    try:
        check_settings(task.settings)
        _method(task)
        _data(task)
    except BilevelError as error:
        raise AssertionError(f"its settings are refused: {error}") from None


def check_problem_is_sound(make: TaskFunction) -> None:
    """Its problem passes `check_problem`: losses that are finite, and gradients that are their derivatives."""
    task = make()
    check_problem(task.problem, _batches(task))


def check_two_steps_can_be_made(make: TaskFunction) -> None:
    """Two steps with its settings lead to a finite point that is not the start."""
    task = make()
    problem, settings, data = task.problem, task.settings, _data(task)
    before = clone(_variables(task))
    outer_opt, inner_opt = SGD(problem.v.leaves, settings.outer_lr), SGD(problem.theta.leaves, settings.theta_lr)
    stepper = Stepper(problem, _method(task), outer_opt, inner_opt)
    for _ in range(2):
        stepper.step_on(data.draw(inner=1, outer=1))
    require(all(bool(x.isfinite().all()) for x in _variables(task)), "two steps lead to a point that is not finite")
    require(not same(before, _variables(task)), "two steps change nothing")


def check_observations_are_numbers(make: TaskFunction) -> None:
    """What it observes are numbers by name, and observing changes nothing."""
    task = make()
    if task.observe is None:
        return
    before = clone(_variables(task))
    for name, value in task.observe(task.problem.point).items():
        require(isinstance(value, (int, float)), f"it observes {name} as a {type(value).__name__}, not as a number")
    require(same(before, _variables(task)), "observing changes the variables")


def check_the_inner_solution_is_one(make: TaskFunction) -> None:
    """Where `solve_inner` leads, an inner step (and its projection) leads nowhere else."""
    task = make()
    if task.solve_inner is None:
        return
    for v in _nearby(task.problem.point.v, task):
        _require_inner_solution(task, Pair(v, task.solve_inner(v, task.problem.point.theta)), "where solve_inner leads")


def check_the_optimum_is_one(make: TaskFunction) -> None:
    """The known solution has the known value at distance 0, it is feasible, and no feasible point near it is better."""
    task = make()
    if task.optimum is None:
        return
    optimum, start = task.optimum, task.problem.point
    require(math.isfinite(optimum.f) and bool(optimum.text), "the optimum has a value that is not finite, or no text")
    require(0 <= optimum.distance(start) < math.inf, f"the distance of the start is {optimum.distance(start)}")
    point = optimum.point
    if point is None:
        return
    tolerance = _tolerance(point.theta)
    require(
        optimum.distance(point) <= tolerance, f"the distance of the optimum is not 0: {optimum.distance(point):.1e}"
    )
    require(
        abs(_f(task, point) - optimum.f) <= tolerance, f"at the optimum f is {_f(task, point):g}, not {optimum.f:g}"
    )
    _require_inner_solution(task, point, "at the optimum")
    if task.solve_inner is not None:
        for v in _nearby(point.v, task):
            other = _f(task, Pair(v, task.solve_inner(v, point.theta)))
            require(
                other >= optimum.f - tolerance, f"a feasible point near the optimum has f = {other:g}, less than f*"
            )


TASK_CHECKS: tuple[TaskCheck, ...] = (
    check_it_is_a_function_of_variant_start_and_seed,
    check_unknown_names_are_refused,
    check_variables_are_fresh,
    check_settings_are_valid,
    check_problem_is_sound,
    check_two_steps_can_be_made,
    check_observations_are_numbers,
    check_the_inner_solution_is_one,
    check_the_optimum_is_one,
)
"""All checks of a task, the quick ones first."""


def _variables(task: Task) -> Leaves:
    return task.problem.point.v + task.problem.point.theta


def _method(task: Task) -> BOME:
    s = task.settings
    return BOME(GradientDescent(s.inner_lr, s.inner_steps, s.inner_momentum), eta=s.eta, phi=s.phi)


def _data(task: Task) -> Data:
    return Data() if task.streams is None else task.streams(_method(task), task.settings)


def _batches(task: Task) -> Batches:
    return _data(task).draw(inner=1, outer=1)


def _f(task: Task, point: Pair) -> float:
    return float(AutogradOracle(task.problem).outer(*point, _batches(task).outer[0]).value)


def _require_inner_solution(task: Task, point: Pair, where: str) -> None:
    g = AutogradOracle(task.problem).inner(*point, _batches(task).inner[0], "theta").grad.theta
    for x, ahead in zip(point.theta, task.problem.project_theta(sub(point.theta, g)), strict=True):
        left = float((ahead - x).norm())
        require(left <= _tolerance(point.theta), f"{where} the inner problem is not solved: ‖g_θ‖ = {left:.1e}")


def _nearby(v: Leaves, task: Task) -> Iterator[Leaves]:
    """The point itself and random points around it, inside of the set of v."""
    generator = torch.Generator().manual_seed(0)
    for scale in (0.0, 1e-3, 1e-3, 0.1, 0.1):
        shifts = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype) for x in v]
        yield task.problem.project_v(tuple(x + scale * shift for x, shift in zip(v, shifts, strict=True)))


def _tolerance(leaves: Leaves) -> float:
    return 1e-9 if all(x.dtype == torch.float64 for x in leaves) else 1e-3
