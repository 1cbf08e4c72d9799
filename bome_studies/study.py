"""What every study gives: figures, claims with what was found, and rows of numbers."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from bome._typing import Report
from bome.reports.figures import Drawing
from bome_studies.notes import paragraph, points

Preset = Literal["smoke", "quick", "paper"]
"""How much of a study is run: seconds for a test, minutes on two cores, or the paper's full protocol."""

SMOKE_NOTE = "Preset smoke takes a few steps only: it shows that everything runs, and decides no claim."


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and what is found here.

    Attributes:
        text: the claim.
        place: where the paper makes it.
        variant: the variant of the task or method it was tested in.
        found: what was measured, in one line.
        holds: whether the claim holds here; None if these runs leave it open.
    """

    text: str
    place: str
    variant: str
    found: str
    holds: bool | None


@dataclass(frozen=True)
class Row:
    """One number, as `docs/results/<study>.json` lists them."""

    task: str
    method: str
    variant: str
    metric: str
    mean: float
    se: float | None
    seeds: int
    preset: Preset
    command: str


@dataclass(frozen=True)
class Table:
    """Numbers beside each other, in words.

    Attributes:
        header: the names of the columns.
        rows: their cells.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A part of the report: some text, a table if there is one, and figures."""

    title: str
    about: str
    figures: tuple[Drawing, ...]
    table: Table | None = None


@dataclass(frozen=True)
class Findings:
    """The outcome of a study."""

    title: str
    about: str
    sections: tuple[Section, ...]
    claims: tuple[Claim, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())


class Study(Protocol):
    """An experiment of the paper, or a comparison with other software."""

    @property
    def name(self) -> str:
        """As on the command line."""

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it with so many processes; parts that are finished in `folder` are read, not run again."""


@runtime_checkable
class LongStudy(Study, Protocol):
    """A study that takes hours, whose page can be made before all of it has ended."""

    def so_far(self, preset: Preset, folder: Path) -> Findings:
        """What the finished parts in `folder` tell; nothing is run."""


def decided(claims: Iterable[Claim], preset: Preset) -> tuple[Claim, ...]:
    """The claims; all of them are open after the few steps of preset smoke."""
    return tuple(replace(claim, holds=None) if preset == "smoke" else claim for claim in claims)


def findings_of(
    module: str,
    title: str,
    preset: Preset,
    sections: Iterable[Section],
    claims: Iterable[Claim],
    rows: Iterable[Row],
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> Findings:
    """The outcome of a study with what `notes.md` says under "about" and "notes"; all claims are open in preset smoke.

    Args:
        module: the `__file__` of a module beside `notes.md`.
        title: of the page.
        preset: how much was run.
        sections: of the page.
        claims: with their verdicts.
        rows: all numbers.
        before: further notes, before those of the file.
        after: and after them.
    """
    notes = (*before, *points(module, "notes"), *after)
    return Findings(title, paragraph(module, "about"), tuple(sections), decided(claims, preset), tuple(rows), notes)
