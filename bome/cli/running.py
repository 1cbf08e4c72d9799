"""Carrying out a run for the verbs `run` and `resume`, and what is said when something long is interrupted."""

import json
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bome.cli.console import line, note, number, progress_bar, table
from bome.errors import NonFiniteError, RunInterruptedError
from bome.reports import write_report
from bome.runs import directory
from bome.runs.plan import Plan


@contextmanager
def told_how_to_continue(command: str, begun: Path | None = None) -> Iterator[None]:
    """If what is done inside is interrupted, say which command goes on with it.

    Args:
        command: what to type.
        begun: a file without which the command has nothing to go on with.
    """
    try:
        yield
    except RunInterruptedError as error:
        error.add_note(f"continue with: {command}")
        raise
    except (KeyboardInterrupt, SystemExit):
        if begun is None or begun.exists():
            note(f"continue with: {command}")
        raise


def told_to_resume(folder: Path) -> AbstractContextManager[None]:
    """If a run is interrupted after it has begun, say how it is resumed."""
    return told_how_to_continue(f"bome resume {shlex.quote(str(folder))}", folder / directory.CONFIG)


def carry_out(folder: Path, made: Plan, config: directory.Config, *, resume: bool, quiet: bool, as_json: bool) -> None:
    """Run, or continue, a plan in its directory, write the report and say how it went."""
    steps = made.settings.steps
    try:
        with told_to_resume(folder), progress_bar(steps, quiet=quiet) as bar:
            progress = bar.follow(config.task, steps)
            summary = directory.solve_into(folder, made, config, resume=resume, progress=progress)
    except NonFiniteError:
        write_report(folder)
        raise
    announce(config, summary, write_report(folder), quiet=quiet, as_json=as_json)


def announce(config: directory.Config, summary: dict[str, Any], page: Path, *, quiet: bool, as_json: bool) -> None:
    """Print the outcome."""
    if as_json:
        line(json.dumps(directory.plain(summary), ensure_ascii=False))
    elif not quiet:
        table(f"{config.task} by {config.method}", ("", "result"), outcome(summary))
        line(f"report: {page}")


def outcome(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The outcome of a run as rows of a table."""
    certificate, optimum = summary["certificate"] or {}, summary["optimum"]
    f = number(summary["f"]) + ("" if optimum is None else f" (optimum {number(optimum['f'])})")
    rows = [
        ("status", f"{summary['status']}: {summary['reason']}"),
        ("f", f),
        ("q̂", number(summary["q"])),
        ("distance to optimum", number(summary["distance_to_optimum"])),
        ("certificate", certificate.get("verdict", "–")),
        ("evaluations", ", ".join(f"{n:,} {kind}" for kind, n in summary["evaluations"].items() if n)),
        ("seconds", number(summary["seconds"])),
    ]
    for title, key in (("observed", "observed"), ("with θ solved afresh", "resolved")):
        if summary.get(key):
            rows.append((title, ", ".join(f"{name} {number(value)}" for name, value in summary[key].items())))
    return rows + tuned(summary)


def tuned(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What a tuner picked, as a row if there was one."""
    found = ", ".join(f"{key} {number(value)}" for key, value in summary["tuned"].items())
    return [("tuned", found)] if found else []
