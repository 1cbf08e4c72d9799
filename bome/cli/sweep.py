"""`bome sweep`: many configurations of a method on a task, over several seeds."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bome.cli.console import line, number, print_json, resumable, stage_bar, table
from bome.cli.options import Json, Out, Quiet, Settings, parse_settings
from bome.continual.settings import check_single_task
from bome.errors import BilevelError, ProblemError
from bome.reports import write_sweep
from bome.runs.choice import Choice, criterion, not_finished, observed, ranked
from bome.runs.jobs import Stock, jobs_of
from bome.runs.plan import parse_settings as parse
from bome.runs.schedule import run_jobs
from bome.storage.command import command_line
from bome.storage.folder import Folder

MOST = 100_000
"""Runs in a sweep; more is a mistake in the grid."""


class BackendChoice(StrEnum):
    """Where workers are; the same as `bome.core.pool.Backend`."""

    loky = "loky"
    ray = "ray"
    dask = "dask"


class NothingFinishedError(BilevelError):
    """No configuration came to its end on all seeds."""

    exit_code = 3


def sweep(
    task: Annotated[str, typer.Argument(help="The name of a task; 'bome ls tasks' lists them.")],
    method: Annotated[
        str, typer.Option("--method", help="A method, or METHOD:VARIANT; see 'bome ls methods'.")
    ] = "bome",
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="KEY=V1,V2,...", help="The values of a setting; repeated, all combinations."),
    ] = None,
    settings: Settings = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Every configuration is run with seeds 0, 1, ...")] = 1,
    out: Out = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes, for runs that cannot go as one batch.")
    ] = 1,
    backend: Annotated[
        BackendChoice, typer.Option("--backend", help="Where they are: this machine, or a Ray or Dask cluster.")
    ] = BackendChoice.loky,
    log_every: Annotated[int, typer.Option("--log-every", min=1, help="Steps between logged rows.")] = 10,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search over settings: each configuration with each seed once; chosen by validation set 2, judged by test.

    Where there is no such set, the distance to the known solution chooses, or how far from stationary a run ended. The
    same command again goes on where it was stopped. What --json prints also stands in summary.json.
    """
    check_single_task(task, method)
    axes = _axes(task, method, grid or ())
    values = parse(task, method, parse_settings(settings))
    runs = seeds * math.prod(map(len, axes.values()))
    if runs > MOST:
        raise ProblemError(f"the grid has {runs:,} runs, more than the {MOST:,} that a sweep may have")
    spec = {"task": task, "method": method, "set": values, "grid": axes, "seeds": seeds, "log_every": log_every}
    jobs = jobs_of(spec)
    stock = Stock()
    for job in jobs:
        if job.seed == 0:
            stock.look(job)  # refuses what cannot work, before anything is run or written
    folder = out if out is not None else _default_folder(task, method, spec)
    Folder(folder).claim("sweep", spec, _command(spec, folder, workers, backend))
    with resumable(folder), stage_bar("sweep", quiet=quiet or as_json) as report:
        outcomes = run_jobs(jobs, folder, report, workers, backend.value, stock=stock)
        page = write_sweep(folder)
    choices = ranked(outcomes.values())
    summary = _summary(choices, folder, list(axes))
    Folder(folder).finish(summary)
    if as_json:
        print_json(summary)
    elif not quiet:
        _show(choices, page, list(axes), f"{task} by {method}")
    if not math.isfinite(choices[0].score):
        reason = choices[0].outcomes[0].reason
        raise NothingFinishedError(f"no configuration finished on all seeds; the first one: {reason}")


def _axes(task: str, method: str, given: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each setting in the grid, in order and without repetition."""
    parse(task, method, {})  # the names, before the values
    axes: dict[str, list[Any]] = {}
    for text in given:
        key, _, values = (part.strip() for part in text.partition("="))
        words = [word.strip() for word in values.split(",")]
        if not key or not all(words):
            raise ProblemError(f"--grid wants KEY=V1,V2,..., such as --grid outer_lr=10,100, got {text!r}")
        if key in axes:
            raise ProblemError(f"{key} is twice in the grid: give all of its values at once, --grid {key}=V1,V2,...")
        axes[key] = list(dict.fromkeys(parse(task, method, {key: word})[key] for word in words))
    return axes


def _default_folder(task: str, method: str, spec: Mapping[str, Any]) -> Path:
    """A place of its own for every sweep, the same for the same command."""
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    return Path("runs") / f"sweep-{task}-{method.replace(':', '-')}-{digest}"


def _command(spec: Mapping[str, Any], folder: Path, workers: int, backend: BackendChoice) -> str:
    return command_line(
        "sweep",
        spec["task"],
        method=spec["method"],
        grid={key: ",".join(map(str, values)) for key, values in spec["grid"].items()},
        set=spec["set"],
        seeds=spec["seeds"],
        log_every=spec["log_every"],
        out=folder,
        workers=workers,
        backend=backend,
    )


def _scored_by(choices: Sequence[Choice]) -> str:
    return criterion(outcome for choice in choices for outcome in choice.outcomes)


def _show(choices: Sequence[Choice], page: Path, axes: Sequence[str], title: str) -> None:
    by = _scored_by(choices)
    learned = "test_accuracy" in observed(choices)
    names = [name for name in (observed(choices) if learned else ("f", "F", "q")) if name not in (by, "test_accuracy")]
    rows = []
    for i, choice in enumerate(choices):
        finished = len(choice.finished)
        score = number(choice.score) if math.isfinite(choice.score) else f"{finished} of {len(choice.outcomes)} ended"
        means = [(name, choice.mean(name)[0]) for name in names]
        others = ", ".join(f"{name} {number(mean)}" for name, mean in means if not math.isnan(mean)) or "–"
        mark = "→" if i == 0 and math.isfinite(choice.score) else ""
        accuracy = (_with_error(choice, "test_accuracy"),) if learned else ()
        rows.append((mark, choice.swept(axes), score, *accuracy, others))
    columns = ("test accuracy ± s.e.",) if learned else ()
    table(title, ("", "configuration", by, *columns, "observed"), rows)
    broken = not_finished(choices)
    if broken:
        told = [(choice.swept(axes), str(o.job.seed), o.status, o.reason) for choice, o in broken]
        table("Not finished", ("configuration", "seed", "status", "reason"), told)
    if math.isfinite(choices[0].score):
        line(f"chosen by {by}: {choices[0].swept(axes)}")
    line(f"report: {page}")


def _with_error(choice: Choice, name: str) -> str:
    mean, error = choice.mean(name)
    if math.isnan(mean):
        return "–"
    return number(mean) if error is None else f"{number(mean)} ± {error:.2g}"


def _summary(choices: Sequence[Choice], folder: Path, axes: Sequence[str]) -> dict[str, Any]:
    names = observed(choices)

    def told(choice: Choice) -> dict[str, Any]:
        seeds = [outcome.job.seed for outcome in choice.finished]
        means = {name: dict(zip(("mean", "se"), choice.mean(name), strict=True)) for name in names}
        return {"values": dict(choice.values), "score": choice.score, "finished_seeds": seeds, "observed": means}

    chosen = choices[0] if math.isfinite(choices[0].score) else None
    return {
        "folder": str(folder),
        "chosen_by": _scored_by(choices),
        "chosen": None if chosen is None else {key: value for key, value in chosen.values if key in axes},
        "configurations": [told(choice) for choice in choices],
        "not_finished": [
            {"values": dict(choice.values), "seed": o.job.seed, "status": o.status, "reason": o.reason}
            for choice, o in not_finished(choices)
        ],
    }
