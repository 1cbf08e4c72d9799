"""The verbs `bome reproduce` and `bome bench`: a study is run into a folder, and a page is made of it."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bome._checks import known
from bome.cli.console import line, note, print_json, resumable, stage_bar, table
from bome.cli.options import Docs, Json, Out, Quiet
from bome.core.pool import default_workers
from bome.errors import ProblemError
from bome.storage.command import command_line
from bome.storage.folder import Folder

if TYPE_CHECKING:  # studies draw figures, and matplotlib takes a while to import
    from bome_studies.study import Findings, Study

REPRODUCE = {
    "toys": "bome_studies.toys.study:TOYS",
    "theory": "bome_studies.theory.study:THEORY",
    "hyperclean": "bome_studies.learning.hyperclean:HYPERCLEAN",
    "regularization": "bome_studies.learning.newsgroups:REGULARIZATION",
    "continual": "bome_studies.continual.study:CONTINUAL",
}
"""The paper's experiments, and where each is found."""

BENCH = {
    "clean": "bome_studies.cleaning.study:CLEANING",
    "mix": "bome_studies.mixing.study:MIXING",
    "scale": "bome_studies.scale.study:SCALE",
    "matrix": "bome_studies.matrix.study:MATRIX",
    "bolib": "bome_studies.bolib.study:BOLIB",
    "applications": "bome_studies.applications.study:APPLICATIONS",
}
"""Comparisons with other software, and measurements of this one."""

ALL = "all"

RECORDED = "continual"
"""The study whose parts are run directories, of which a record can be kept."""


class PresetChoice(StrEnum):
    """How much of a study is run; the same as `bome_studies.study.Preset`."""

    smoke = "smoke"
    quick = "quick"
    paper = "paper"


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line.

    Attributes:
        verb: "reproduce" or "bench"; folders are of this kind.
        subject: the name of a study, or of all.
        preset: how much of it is run.
        workers: processes; None leaves it to the machine.
        out: where to write.
        docs: where to write documentation too.
        record: of finished runs.
        quiet: whether nothing is printed but errors and warnings.
        as_json: whether the outcome is printed as JSON.
    """

    verb: str
    subject: str
    preset: PresetChoice
    workers: int | None
    out: Path | None
    docs: Path | None
    record: Path | None = None
    quiet: bool = False
    as_json: bool = False

    @property
    def command(self) -> str:
        """What to type to ask for the same again."""
        return command_line(
            self.verb,
            self.subject,
            preset=self.preset.value,
            workers=self.workers,
            out=self.out,
            docs=self.docs,
            record=self.record,
        )


def reproduce(
    study: Annotated[
        str,
        typer.Argument(metavar="STUDY", help=f"{', '.join(REPRODUCE)}, or all."),
    ],
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
    """Repeat an experiment of the paper: figures, and each claim beside the result. Goes on where it was stopped."""
    known("study", study, (*REPRODUCE, ALL))
    if record is not None and study != RECORDED:
        raise ProblemError(f"--record is for {RECORDED} only, whose runs take hours")
    order = Order("reproduce", study, preset, None, out, docs, record, quiet=quiet, as_json=as_json)
    if study != ALL:
        folder = out if out is not None else Path("runs") / f"reproduce-{study}-{preset.value}"
        outcome = _fulfil(order, REPRODUCE[study], folder)
        _print_json(order, outcome)
        return
    from bome_studies.page import INDEX, write_overview

    folders, outcomes = [], []
    for name, place in REPRODUCE.items():
        folders.append(Path("runs") / f"reproduce-{name}-{preset.value}" if out is None else out / name)
        outcomes.append(_fulfil(order, place, folders[-1]))
        # After each study, so that the page is there even if a later one is stopped.
        index = write_overview((out or Path("runs") / f"reproduce-all-{preset.value}") / INDEX, folders)
    if not quiet and not as_json:
        line(f"all reports: {index}")
    _print_json(order, outcomes)


def bench(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="clean (HyperCleaner, cleanlab), mix (data mixtures), scale (costs), matrix (where training runs), "
            "bolib (problems with known optima), applications (what v is worth in eight of them).",
        ),
    ],
    preset: Annotated[
        PresetChoice, typer.Option("--preset", help="Seconds, at most two hours on two cores, or everything.")
    ] = PresetChoice.quick,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    out: Out = None,
    docs: Docs = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Take over the finished parts in it, and keep all there."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare with other software: figures, and each aim beside the result. Goes on where it was stopped."""
    known("study", study, BENCH)
    order = Order("bench", study, preset, workers, out, docs, record, quiet=quiet, as_json=as_json)
    folder = out if out is not None else Path("runs") / f"bench-{study}-{preset.value}"
    _print_json(order, _fulfil(order, BENCH[study], folder))


def make_page(folder: Path, docs: Path | None = None) -> Path:
    """Make the page of a study from what its folder holds, and its documentation if a place for that is given.

    Of a study that takes hours also before all of its parts have ended. Nothing is run.
    """
    from bome_studies import page
    from bome_studies.parts import PARTS
    from bome_studies.study import LongStudy

    name, preset = page.identity(folder)
    places = BENCH if name.startswith(page.BENCH) else REPRODUCE
    short = name.removeprefix(page.BENCH)
    study = load(places[short]) if short in places else None
    if isinstance(study, LongStudy) and (folder / PARTS).is_dir():
        path = page.write(folder, study.so_far(preset, folder))
    else:
        path = page.write_page(folder)
    if docs is not None:
        page.write_docs(folder, docs)
    return path


def load(place: str) -> "Study":
    """The study at a place of the catalogue; only that one is imported."""
    study: Study = resolve_name(place)
    return study


def _fulfil(order: Order, place: str, folder: Path) -> dict[str, Any]:
    """Run one study into its folder, write its page, print what is found; the outcome for JSON."""
    from bome_studies import page

    study = load(place)
    short = study.name.removeprefix(page.BENCH)
    alone = replace(order, subject=short, out=folder)  # in case all of them were asked for
    Folder(folder).claim(order.verb, {"study": short, "preset": order.preset.value}, alone.command)
    with resumable(folder, order.command if order.subject == ALL else None):
        findings = _run(order, study, folder)
    path = page.write(folder, findings)
    if order.docs is not None:
        page.write_docs(folder, order.docs)
    if not order.quiet and not order.as_json:
        _show(findings, path)
    return {"study": study.name, "report": str(path), **summary(findings)}


def _run(order: Order, study: "Study", folder: Path) -> "Findings":
    """Run a study with a progress bar, and with a record if there is one."""
    with ExitStack() as stack:
        if order.record is not None and order.verb == "bench":
            from bome_studies import lines

            parts = stack.enter_context(lines.recorded(folder, order.record))
            if not order.quiet:
                note(f"{order.record}: {parts} finished parts taken over")
        elif order.record is not None:
            from bome_studies.continual.record import recorded

            taken = stack.enter_context(recorded(folder, order.record))
            if not order.quiet:
                others = f"; {taken.others} with other settings than today's left alone" if taken.others else ""
                others += f"; {taken.barred} left alone where {folder} holds another run" if taken.barred else ""
                note(f"{order.record}: {taken.ended} finished runs taken over{others}")
        report = stack.enter_context(stage_bar(study.name, quiet=order.quiet or order.as_json))
        return study.run(order.preset.value, folder, report, _workers(order))


def _workers(order: Order) -> int:
    if order.workers is not None:
        return order.workers
    return 1 if order.preset == PresetChoice.smoke else default_workers()


def summary(findings: "Findings") -> dict[str, Any]:
    """Claims and rows, for JSON."""
    return {"claims": [asdict(claim) for claim in findings.claims], "rows": [asdict(row) for row in findings.rows]}


def _print_json(order: Order, outcome: Any) -> None:
    if order.as_json:
        print_json(outcome)


def _show(findings: "Findings", path: Path) -> None:
    """Print the claims, and where the page is."""
    from bome_studies.page import WORDS, counts

    rows = [(claim.text, claim.variant, claim.found, WORDS[claim.holds][0]) for claim in findings.claims]
    table(findings.title, ("claim", "tested in", "found", "holds"), rows)
    line(", ".join(text for text, _ in counts(findings.claims)))
    line(f"report: {path}")
