"""`bome bench`: measured comparisons with other software."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bome.cli.console import line, stage_bar
from bome.cli.options import Docs, Json, Out, Quiet
from bome.cli.reproduce import PresetChoice, show, summary
from bome.errors import ProblemError

if TYPE_CHECKING:  # the experiments draw figures, and matplotlib takes a while to import
    from bome_studies.study import Experiment


def _clean(workers: int) -> "Experiment":
    from bome_studies.cleaning.study import Cleaning

    return Cleaning(workers)


def _mix(workers: int) -> "Experiment":
    from bome_studies.mixing.study import Mix

    return Mix(workers)


def _matrix(workers: int) -> "Experiment":
    from bome_studies.matrix.study import Matrix

    return Matrix(workers)


def _scale(workers: int) -> "Experiment":
    from bome_studies.scale.study import Scale

    return Scale(workers)


SUBJECTS: dict[str, Callable[[int], "Experiment"]] = {"clean": _clean, "mix": _mix, "scale": _scale, "matrix": _matrix}
"""What can be compared, by its name on the command line; each is made for a number of processes."""


def bench(
    subject: Annotated[
        str,
        typer.Argument(
            help="What is compared: clean (HyperCleaner, cleanlab), mix (data mixtures), matrix (where training runs)."
        ),
    ],
    preset: Annotated[
        PresetChoice, typer.Option("--preset", help="Seconds, at most two hours on two cores, or everything.")
    ] = PresetChoice.quick,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    out: Out = None,
    docs: Docs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare with other software: figures, and each aim beside what is found. Goes on where it was stopped."""
    if subject not in SUBJECTS:
        raise ProblemError(f"unknown subject {subject!r}; known: {', '.join(SUBJECTS)}")
    from bome_studies import page

    experiment = SUBJECTS[subject](workers)
    folder = out if out is not None else Path("runs") / f"{experiment.name}-{preset.value}"
    page.prepare(folder, experiment.name, preset.value)
    with stage_bar(subject, quiet=quiet or as_json) as report:
        findings = experiment.carry_out(preset.value, folder, report)
    written = page.write(folder, findings)
    if docs is not None:
        page.write_docs(folder, docs)
    if as_json:
        line(json.dumps({"experiment": experiment.name, "report": str(written), **summary(findings)}))
    elif not quiet:
        show(findings, written)
