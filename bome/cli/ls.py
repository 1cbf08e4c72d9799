"""`bome ls`: what there is."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from bome.cli.console import line, table
from bome.cli.docstrings import module_line, section
from bome.continual.settings import BY_STREAM, CTN, STRATEGIES, strategy_variants
from bome.continual.settings import Settings as StrategySettings
from bome.continual.streams import STREAMS
from bome.data.sets import available
from bome.runs.names import METHODS, TASKS
from bome.runs.plan import variants
from bome.tasks import ON_DATA, SUGGESTED, bolib
from bome.tasks.task import Settings, Task


class Kind(StrEnum):
    """What can be listed."""

    methods = "methods"
    tasks = "tasks"
    bolib = "bolib"
    strategies = "strategies"
    settings = "settings"
    data = "data"


def ls(kind: Annotated[Kind | None, typer.Argument(help="By default the names of all of them.")] = None) -> None:
    """List methods, tasks, problems of BOLIB, strategies on streams of tasks, settings and data sets."""
    pages = {
        Kind.methods: _methods,
        Kind.tasks: _tasks,
        Kind.bolib: _bolib,
        Kind.strategies: _strategies,
        Kind.settings: _settings,
        Kind.data: _data,
    }
    (_overview if kind is None else pages[kind])()


def _overview() -> None:
    """Names only, on one screen."""
    names: dict[str, Iterable[str]] = {
        "methods": METHODS,
        "tasks": [*_own_tasks(), f"{bolib.PREFIX}NAME ({len(bolib.RECORDS)} of them)"],
        "strategies": STRATEGIES,
        "streams": STREAMS,
        "settings": [*(field.name for field in fields(Settings)), "variant", "start"],
        "data": [each.name for each in available()],
    }
    table("", ("what", "names"), [(what, ", ".join(some)) for what, some in names.items()])
    line(f"What they are: bome ls {'|'.join(Kind)}")


def _methods() -> None:
    rows = [(name, ", ".join(variants(name)), module_line(kind)) for name, kind in METHODS.items()]
    table("Methods (--method NAME or NAME:VARIANT)", ("name", "variants", "description"), rows)


def _tasks() -> None:
    rows = []
    for name in _own_tasks():
        make = TASKS[name]
        arguments, task = section(make, "Args"), _built(name)
        optimum = "unknown" if task is None or task.optimum is None else task.optimum.text
        rows.append((name, module_line(make), f"optimum: {optimum}"))
        rows += [("", f"variant: {arguments.get('variant', '')}", f"start: {arguments.get('start', '')}")]
    rows.append((f"{bolib.PREFIX}NAME", "problems of the library BOLIB: bome ls bolib", "optima: all known"))
    table("Tasks (--set variant=..., --set start=...)", ("name", "description, variants", "optimum, starts"), rows)


def _own_tasks() -> list[str]:
    """The tasks that are listed one by one."""
    return [name for name in TASKS if name not in bolib.RECORDS]


def _bolib() -> None:
    records = bolib.RECORDS
    rows = [(name, record.kind, f"{record.optimum:.6g}") for name, record in records.items()]
    table("Problems of the library BOLIB", ("task", "kind", "optimal f"), rows)
    table("Where they are from", ("problem", "source"), [(record.name, record.source) for record in records.values()])
    corrections = [(record.name, record.correction) for record in records.values() if record.correction]
    table("What is corrected", ("problem", "correction"), corrections)


def _strategies() -> None:
    """What can be run on streams of tasks, which, and with which settings."""
    rows = [(name, ", ".join(strategy_variants(name)), about.line) for name, about in STRATEGIES.items()]
    table("Strategies on streams of tasks (--method NAME or NAME:VARIANT)", ("name", "variants", "description"), rows)
    streams = [(name, (make.__doc__ or "").strip().split("\n")[0]) for name, make in STREAMS.items()]
    table("Streams of tasks (--set part=tuning for the tuning tasks)", ("name", "description"), streams)
    meaning = section(StrategySettings, "Attributes")
    has = {name: set(about.settings) for name, about in STRATEGIES.items()}
    table(
        "Settings of strategies (--set KEY=VALUE)",
        ("key", "meaning", "default", "strategies"),
        [(x.name, meaning.get(x.name, ""), _default(x), _holders(x.name, has)) for x in fields(StrategySettings)],
    )
    usual = {**BY_STREAM, **{name: about.usual for name, about in STRATEGIES.items() if about.usual}}
    further = [(name, _listed(values)) for name, values in usual.items()]
    table("Further defaults of streams and strategies", ("stream or strategy", "settings"), further)


def _settings() -> None:
    meaning = section(Settings, "Attributes")
    rows = [(field.name, meaning.get(field.name, ""), _default(field)) for field in fields(Settings)]
    rows += [("variant", "of the task", "code"), ("start", "the starting point of the task", "by task")]
    table("Settings (--set KEY=VALUE)", ("key", "meaning", "default"), rows)
    for name, kind in METHODS.items():
        meaning, common = section(kind, "Attributes"), {field.name for field in fields(Settings)}
        hidden = common | {"inner"}  # the inner map is made from inner_lr, inner_steps and inner_momentum
        own = [field for field in fields(kind) if field.name not in hidden]  # type: ignore[arg-type]
        if own:
            rows = [(field.name, meaning.get(field.name, ""), _default(field)) for field in own]
            table(f"Settings of {name} only", ("key", "meaning", "default"), rows)
    _defaults()


def _defaults() -> None:
    """The settings that tasks have of their own."""
    by_task: dict[str, dict[str, Any]] = {}
    by_method: dict[tuple[str, str], list[str]] = {}
    for name in (*_own_tasks(), next(iter(bolib.RECORDS))):
        task = _built(name)
        settings = ON_DATA.get(name, None if task is None else task.settings)
        suggested = SUGGESTED.get(name, {} if task is None else task.suggested)
        label = f"{bolib.PREFIX}NAME" if name in bolib.RECORDS else name
        by_task |= {} if settings is None else {label: asdict(settings)}
        for method, values in suggested.items():
            by_method.setdefault((method, _listed(values)), []).append(name)
    keys = [field.name for field in fields(Settings) if len({v[field.name] for v in by_task.values()}) > 1]
    rows = [(name, _listed({key: values[key] for key in keys})) for name, values in by_task.items()]
    table("Defaults by task", ("task", "settings"), rows)
    further = [(method, values, ", ".join(names)) for (method, values), names in by_method.items()]
    table("Further defaults of methods by task", ("method", "settings", "tasks"), further)


def _built(name: str) -> Task | None:
    """A task, unless it needs data, or another package cannot build it by its name alone."""
    try:
        return None if name in ON_DATA else TASKS[name]()
    except Exception:  # whatever is wrong with one task, the others are listed
        return None


def _data() -> None:
    rows = []
    for each in available():
        rows.append((each.name, each.about, f"{each.size / 1e6:.0f} MB", each.place))
        rows += [("", each.remedy, "", "")] if each.remedy else []
    table("Data sets (BOME_DATA, BOME_CACHE)", ("name", "description", "download", "where"), rows)


def _holders(key: str, has: Mapping[str, set[str]]) -> str:
    """The strategies that have a setting."""
    names = [name for name, keys in has.items() if key in keys]
    contextual = [name for name in has if name.startswith(CTN)]
    others = [name for name in names if not name.startswith(CTN)]
    if len(names) == len(has):
        return "all"
    return ", ".join([*others, *(["ctn+…"] if set(contextual) <= set(names) else sorted(set(names) - set(others)))])


def _listed(values: Mapping[str, float | str]) -> str:
    return ", ".join(f"{key}={x if isinstance(x, str) else f'{x:g}'}" for key, x in values.items())


def _default(field: Any) -> str:
    if field.default is not MISSING:
        return str(field.default)
    return "by task" if field.default_factory is MISSING else str(field.default_factory())
