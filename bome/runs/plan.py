"""Plans: names and settings given as text become a task, a method and the settings of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bome._checks import field_types, known, parse
from bome.errors import ProblemError
from bome.inner import GradientDescent
from bome.methods import Method
from bome.runs.names import METHODS, TASKS
from bome.tasks.task import Settings, Task
from bome.tuner import Tuner

BARRIER = ("eta", "phi")
"""Settings of runs that most methods do not have."""

AUTO = "auto"
"""The variant of BOME in which a `Tuner` picks T and the scale of the v step between steps."""


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


def plan(task: str, method: str = "bome", given: Mapping[str, Any] | None = None, seed: int = 0) -> Plan:
    """Make a plan from names and settings.

    Args:
        task: the name of a task.
        method: the name of a method, or `name:variant`.
        given: settings by name, as text or as values: those of `Settings`, of the task (`variant`, `start`) and the
            method's own.
        seed: of whatever the task draws.
    """
    chosen = parsed(task, method, given or {})
    name, _, variant = method.partition(":")
    kind, common = METHODS[name], field_types(Settings)
    built = TASKS[task](**{key: chosen[key] for key in ("variant", "start") if key in chosen}, seed=seed)
    values = {**built.suggested.get(name, {}), **_variant(kind, name, variant, built), **chosen}
    settings = replace(built.settings, **{key: value for key, value in values.items() if key in common})
    solver = build(kind, settings, values)
    spec = {"task": task, "method": method, "set": chosen, "seed": seed}
    return Plan(built, solver, settings, Tuner() if variant == AUTO else None, spec)


def parsed(task: str, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
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
