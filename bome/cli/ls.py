"""`bome ls`: what there is."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from bome.cli.console import table
from bome.cli.docstrings import module_line, section
from bome.continual.settings import BY_STREAM, CTN, STRATEGIES, strategy_variants
from bome.continual.settings import Settings as StrategySettings
from bome.continual.streams import STREAMS
from bome.data.sets import available
from bome.runs.names import METHODS, TASKS
from bome.runs.plan import variants
from bome.tasks import ON_DATA, SUGGESTED
from bome.tasks.task import Settings


class Kind(StrEnum):
    """What can be listed."""

    methods = "methods"
    tasks = "tasks"
    settings = "settings"
    data = "data"


def ls(kind: Annotated[Kind | None, typer.Argument(help="By default all of them.")] = None) -> None:
    """List methods, tasks, settings and data sets."""
    shown = {Kind.methods: _methods, Kind.tasks: _tasks, Kind.settings: _settings, Kind.data: _data}
    for each in Kind if kind is None else [kind]:
        shown[each]()


def _methods() -> None:
    rows = [(name, ", ".join(variants(name)), module_line(kind)) for name, kind in METHODS.items()]
    table("Methods (--method NAME or NAME:VARIANT)", ("name", "variants", "description"), rows)
    rows = [(name, ", ".join(strategy_variants(name)), about.line) for name, about in STRATEGIES.items()]
    table("Strategies on streams of tasks (--method NAME or NAME:VARIANT)", ("name", "variants", "description"), rows)


def _tasks() -> None:
    rows = []
    for name, make in TASKS.items():
        told, optimum = section(make, "Args"), None if name in ON_DATA else make().optimum
        rows.append((name, module_line(make), "optimum: " + ("unknown" if optimum is None else optimum.text)))
        rows += [("", f"variant: {told.get('variant', '')}", f"start: {told.get('start', '')}")]
    table("Tasks (--set variant=..., --set start=...)", ("name", "description, variants", "optimum, starts"), rows)
    streams = [(name, (make.__doc__ or "").strip().split("\n")[0]) for name, make in STREAMS.items()]
    table("Streams of tasks, for strategies (--set part=tuning for the tuning tasks)", ("name", "description"), streams)


def _settings() -> None:
    meaning = section(Settings, "Attributes")
    rows = [(field.name, meaning.get(field.name, ""), _default(field)) for field in fields(Settings)]
    rows += [("variant", "of the task", "code"), ("start", "the starting point of the task", "by task")]
    table("Settings (--set KEY=VALUE)", ("key", "meaning", "default"), rows)
    for name, kind in METHODS.items():
        told, common = section(kind, "Attributes"), {field.name for field in fields(Settings)}
        hidden = common | {"inner"}  # the inner map is made from inner_lr, inner_steps and inner_momentum
        own = [field for field in fields(kind) if field.name not in hidden]  # type: ignore[arg-type]
        if own:
            rows = [(field.name, told.get(field.name, ""), _default(field)) for field in own]
            table(f"Settings of {name} only", ("key", "meaning", "default"), rows)
    told = section(StrategySettings, "Attributes")
    has = {name: set(about.settings) for name, about in STRATEGIES.items()}
    table(
        "Settings of strategies on streams of tasks",
        ("key", "meaning", "default", "strategies"),
        [(x.name, told.get(x.name, ""), _default(x), _holders(x.name, has)) for x in fields(StrategySettings)],
    )
    usual = {**BY_STREAM, **{name: about.usual for name, about in STRATEGIES.items() if about.usual}}
    further = [(name, _told(values)) for name, values in usual.items()]
    table("Further defaults of streams and strategies", ("stream or strategy", "settings"), further)
    by_task = [(name, asdict(ON_DATA[name] if name in ON_DATA else make().settings)) for name, make in TASKS.items()]
    keys = [key for key in by_task[0][1] if len({values[key] for _, values in by_task}) > 1]
    table(
        "Defaults by task", ("task", "settings"), [(name, _told({key: v[key] for key in keys})) for name, v in by_task]
    )
    suggested: dict[tuple[str, str], list[str]] = {}
    for name, make in TASKS.items():
        for method, values in (SUGGESTED[name] if name in SUGGESTED else make().suggested).items():
            suggested.setdefault((method, _told(values)), []).append(name)
    rows = [(method, values, ", ".join(names)) for (method, values), names in suggested.items()]
    table("Further defaults of methods by task", ("method", "settings", "tasks"), rows)


def _data() -> None:
    rows = []
    for each in available():
        rows.append((each.name, each.about, f"{each.size / 1e6:.0f} MB", each.found))
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


def _told(values: Mapping[str, float | str]) -> str:
    return ", ".join(f"{key}={x if isinstance(x, str) else f'{x:g}'}" for key, x in values.items())


def _default(field: Any) -> str:
    if field.default is not MISSING:
        return str(field.default)
    return "by task" if field.default_factory is MISSING else str(field.default_factory())
