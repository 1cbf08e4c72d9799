"""Runs of strategies on streams of tasks, for the verbs `run` and `resume`."""

import json
from pathlib import Path
from typing import Any

from bome.cli.console import line, number, stage_bar, table
from bome.cli.running import told_to_resume, tuned
from bome.errors import BilevelError, ProblemError
from bome.reports import write_report
from bome.runs import directory

DEFAULT = "ctn+bome"
"""The strategy where none is named."""


class LearningDivergedError(BilevelError):
    """NaN or infinity ended a run; its summary says where."""

    exit_code = 3


def learn(
    task: str, strategy: str, values: dict[str, Any], seed: int, out: Path | None, *, quiet: bool, as_json: bool
) -> None:
    """Run a strategy on a stream of tasks, or continue it where the very same run was stopped."""
    from bome.continual.run import Spec, carry_out_part

    part = values.pop("part", "learning")
    spec = Spec(task, strategy, seed, values, part)
    config = spec.config()
    folder = out if out is not None else directory.default_folder(config)
    with told_to_resume(folder), stage_bar(task, quiet=quiet) as progress:
        summary = carry_out_part(spec, folder, progress)
    page = write_report(folder)
    if summary["status"] == directory.DIVERGED:
        raise LearningDivergedError(summary["reason"])
    if as_json:
        line(json.dumps(directory.plain(summary), ensure_ascii=False))
    elif not quiet:
        table(f"{task} by {strategy}, seed {seed}", ("", "result"), _outcome(summary))
        line(f"report: {page}")


def go_on(folder: Path, config: directory.Config, given: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Continue a run of a strategy."""
    if given:
        raise ProblemError("the settings of a run on a stream of tasks cannot be changed: start a new one")
    learn(config.task, config.method, dict(config.set), config.seed, folder, quiet=quiet, as_json=as_json)


def _outcome(summary: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("status", f"{summary['status']}: {summary['reason']}"),
        *(
            (name.upper(), f"{number(value)} {'%' if name in ('acc', 'ft') else 'points'}")
            for name, value in summary["observed"].items()
            if value is not None
        ),
        ("evaluations", ", ".join(f"{n:,} {kind}" for kind, n in summary["evaluations"].items() if n) or "–"),
        ("seconds of learning", number(summary["seconds"])),
        *tuned(summary),
    ]
