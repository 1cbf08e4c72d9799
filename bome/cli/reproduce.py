"""`bome reproduce`: the experiments of the paper."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bome.cli.console import line, note, stage_bar, table
from bome.cli.options import Docs, Json, Out, Quiet
from bome.cli.running import told_how_to_continue
from bome.errors import ProblemError

if TYPE_CHECKING:  # the experiments draw figures, and matplotlib takes a while to import
    from bome_studies.study import Findings

ALL = "all"

RECORDED = "continual"
"""The experiment whose parts are run directories, of which a record can be kept."""


class PresetChoice(StrEnum):
    """How much of an experiment is run; the same as `bome_studies.study.Preset`."""

    smoke = "smoke"
    quick = "quick"
    paper = "paper"


def reproduce(
    experiment: Annotated[str, typer.Argument(help="toys, theory, hyperclean, regularization, continual, or all.")],
    preset: Annotated[
        PresetChoice, typer.Option("--preset", help="Seconds, minutes on two cores, or the full protocol.")
    ] = PresetChoice.quick,
    out: Out = None,
    docs: Docs = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="continual: take over the finished runs in it, and keep all there."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Repeat an experiment of the paper: figures, and each claim beside what is found. Goes on where it was stopped."""
    from bome_studies import page
    from bome_studies.catalogue import EXPERIMENTS
    from bome_studies.overview import INDEX, write_overview

    if experiment not in (*EXPERIMENTS, ALL):
        raise ProblemError(f"unknown experiment {experiment!r}; known: {', '.join((*EXPERIMENTS, ALL))}")
    if record is not None and experiment != RECORDED:
        raise ProblemError(f"--record is for {RECORDED} only, whose runs take hours")
    names = [*EXPERIMENTS] if experiment == ALL else [experiment]
    outcomes, folders = [], []
    for name in names:
        folder = _folder(out, name, preset, several=experiment == ALL)
        page.prepare(folder, name, preset.value)
        with told_how_to_continue(page.command(experiment, preset.value, out=out, docs=docs, record=record)):
            findings = _carry_out(name, preset, folder, record, quiet=quiet)
        written = page.write(folder, findings)
        if docs is not None:
            page.write_docs(folder, docs)
        folders.append(folder)
        if experiment == ALL:  # after each, so that the page is there even if a later one is stopped
            index = write_overview((out or Path("runs") / f"reproduce-all-{preset.value}") / INDEX, folders)
        outcomes.append({"experiment": name, "report": str(written), **summary(findings)})
        if not quiet and not as_json:
            show(findings, written)
    if experiment == ALL and not quiet and not as_json:
        line(f"all reports: {index}")
    if as_json:
        line(json.dumps(outcomes[0] if experiment != ALL else outcomes, ensure_ascii=False))


def _carry_out(name: str, preset: PresetChoice, folder: Path, record: Path | None, *, quiet: bool) -> "Findings":
    """Run an experiment, with a progress bar, and with a record if there is one."""
    from bome_studies.catalogue import EXPERIMENTS
    from bome_studies.continual.record import recorded

    with ExitStack() as stack:
        if record is not None:
            taken = stack.enter_context(recorded(folder, record))
            if not quiet:
                others = f"; {taken.others} with other settings than today's left alone" if taken.others else ""
                others += f"; {taken.barred} left alone where {folder} holds another run" if taken.barred else ""
                note(f"{record}: {taken.ended} finished runs taken over{others}")
        report = stack.enter_context(stage_bar(name, quiet=quiet))
        return EXPERIMENTS[name].carry_out(preset.value, folder, report)


def _folder(out: Path | None, name: str, preset: PresetChoice, *, several: bool) -> Path:
    if out is None:
        return Path("runs") / f"reproduce-{name}-{preset.value}"
    return out / name if several else out


def summary(findings: "Findings") -> dict[str, object]:
    """Claims and rows, for JSON."""
    from bome_studies.page import finite

    claims = [asdict(claim) for claim in findings.claims]
    found: dict[str, object] = finite({"claims": claims, "rows": [row.to_dict() for row in findings.rows]})
    return found


def show(findings: "Findings", written: Path) -> None:
    """Print the claims, and where the page is."""
    from bome_studies.page import WORDS, counts

    rows = [(claim.text, claim.variant, claim.found, WORDS[claim.holds][0]) for claim in findings.claims]
    table(findings.title, ("claim", "tested in", "found", "holds"), rows)
    line(", ".join(text for text, _ in counts(findings.claims)))
    line(f"report: {written}")
