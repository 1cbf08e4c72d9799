"""Plans: names and settings given as text become a task, a method and the settings of a run."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome._checks import check_decay, check_positive, field_types, known, parse
from bome.errors import ProblemError
from bome.inner import GradientDescent
from bome.methods import Method
from bome.methods.base import check_accepted
from bome.problem import Problem
from bome.runs.names import METHODS, TASKS
from bome.stopping import MaxSteps
from bome.tasks.task import Settings, Task
from bome.tuner import Tuner

BARRIER = ("eta", "phi")
"""Settings of runs that most methods do not have."""

AUTO = "auto"
"""The variant of BOME in which a `Tuner` picks T and the scale of the v step between steps."""

LIMITS = {"steps": 100_000_000, "inner_steps": 1_000_000}
"""The largest sensible values; beyond them a run would hardly end."""


class Optimisers(NamedTuple):
    """What moves the variables of a run, by the names of the arguments of `bome.loop.run`."""

    outer_opt: SGD
    inner_opt: SGD
    schedulers: list[LambdaLR]


@dataclass(frozen=True)
class Plan:
    """A task, a method and their settings, all checked.

    Attributes:
        task: the task, with fresh variables.
        method: the method.
        settings: the settings of the run.
        tuner: for variant `auto`.
        spec: the names and values this plan was made from, for `config.json`.
    """

    task: Task
    method: Method
    settings: Settings
    tuner: Tuner | None
    spec: dict[str, Any]

    def optimisers(self, problem: Problem | None = None) -> Optimisers:
        """Gradient descent as the settings say; on another problem if that stands for the task's."""
        problem, settings = problem or self.task.problem, self.settings
        outer_opt = SGD(problem.v.leaves, settings.outer_lr, momentum=settings.momentum)
        inner_opt = SGD(problem.theta.leaves, settings.theta_lr, momentum=settings.momentum)
        if not settings.decay:
            return Optimisers(outer_opt, inner_opt, [])

        def scale(k: int) -> float:
            return min(1.0, math.sqrt(settings.decay / (k + 1)))

        return Optimisers(outer_opt, inner_opt, [LambdaLR(opt, scale) for opt in (outer_opt, inner_opt)])


def plan(task: str, method: str = "bome", given: Mapping[str, Any] | None = None, seed: int = 0) -> Plan:
    """Make a plan from names and settings.

    Args:
        task: the name of a task.
        method: the name of a method, or `name:variant`.
        given: settings by name, as text or as values: those of `Settings`, of the task (`variant`, `start`) and the
            method's own.
        seed: of all that is random in the task.
    """
    values = parse_settings(task, method, given or {})
    return plan_on(build_task(task, values, seed), task, method, values, seed)


def build_task(name: str, values: Mapping[str, Any], seed: int) -> Task:
    """The task of that name, with those of the settings that concern it."""
    return TASKS[name](**{key: values[key] for key in ("variant", "start") if key in values}, seed=seed)


def plan_on(built: Task, task: str, method: str, values: Mapping[str, Any], seed: int) -> Plan:
    """The plan with a task that is built already, and settings that have been parsed."""
    name, _, variant = method.partition(":")
    kind, common = METHODS[name], field_types(Settings)
    given = {**built.suggested.get(name, {}), **_variant(kind, name, variant, built), **values}
    settings = replace(built.settings, **{key: value for key, value in given.items() if key in common})
    solver = build(kind, settings, given)
    check_settings(settings)
    check_accepted(built.problem, solver)
    spec = {"task": task, "method": method, "set": dict(values), "seed": seed}
    return Plan(built, solver, settings, Tuner() if variant == AUTO else None, spec)


def parse_settings(task: str, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings given as text as the values that their types want; names and texts that are wrong are refused.

    The task is not built, which may take a while.
    """
    known("task", task, TASKS)
    name, _, variant = method.partition(":")
    kind = METHODS[known("method", name, METHODS)]
    if variant:
        known(f"variant of {name}", variant, kind.variants)
    kinds = {"variant": str, "start": str, **field_types(kind), **field_types(Settings)}
    kinds.pop("inner", None)  # made of inner_lr, inner_steps and inner_momentum
    for key in given:
        known("setting", key, kinds)
        if key in BARRIER and key not in field_types(kind):
            raise ProblemError(f"{name} has no setting {key!r}: it is one of methods with a dynamic barrier, as bome")
    return {key: parse(key, value, kinds[key]) for key, value in given.items()}


def variants(name: str) -> list[str]:
    """The named variants of a method."""
    return list(METHODS[name].variants)


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


def _variant(kind: type[Method], name: str, variant: str, task: Task) -> dict[str, Any]:
    if not variant:
        return {}
    preset = dict(kind.variants[variant])
    return {**preset, **task.published.get(name, {})} if variant == "published" else preset


def build(kind: type[Method], settings: Settings, values: Mapping[str, Any] | None = None) -> Method:
    """A method from settings, and values of its own fields where they are given."""
    given = {**asdict(settings), **(values or {})}
    arguments = {key: given[key] for key in field_types(kind) if key in given}
    if "inner" in field_types(kind):
        arguments["inner"] = GradientDescent(settings.inner_lr, settings.inner_steps, settings.inner_momentum)
    return kind(**arguments)
