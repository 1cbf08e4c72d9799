"""What every experiment of the paper gives: figures, claims with what was found, and rows of numbers."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from bome.reports.figures import Drawing

Preset = Literal["smoke", "quick", "paper"]
"""How much of an experiment is run: seconds for a test, minutes on two cores, or the paper's full protocol."""

Report = Callable[[str, int, int], None]
"""Called with (what is being done, parts done, parts in all) as an experiment goes on."""


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and what is found here.

    Attributes:
        text: the claim.
        place: where the paper makes it.
        variant: the variant of the task or method it was tested in.
        found: what was measured, in one line.
        holds: whether the claim holds here; None if it cannot be said.
    """

    text: str
    place: str
    variant: str
    found: str
    holds: bool | None


@dataclass(frozen=True)
class Row:
    """One number, as `docs/results/<experiment>.json` lists them."""

    task: str
    method: str
    variant: str
    metric: str
    mean: float
    se: float | None
    seeds: int
    preset: Preset
    command: str

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


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
    """The outcome of an experiment."""

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

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it with so many processes; parts that are finished in `folder` are read, not run again."""


@runtime_checkable
class LongStudy(Study, Protocol):
    """A study that takes hours, whose page can be made before all of it has ended."""

    def so_far(self, preset: Preset, folder: Path) -> Findings:
        """What the finished parts in `folder` tell; nothing is run."""
