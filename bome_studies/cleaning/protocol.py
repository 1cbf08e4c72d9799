"""Which cells the cleaning study has: data sets, kinds and shares of noise, numbers of trusted rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bome_studies.cleaning.data import KINDS, Cell, Kind
from bome_studies.study import Preset


@dataclass(frozen=True)
class Field:
    """The cells of one data set.

    Attributes:
        data: its name.
        features: how many.
        rows: doubtful rows.
        trusted: numbers of trusted rows, the usual one first.
    """

    data: str
    features: int
    rows: int
    trusted: tuple[int, ...]

    def cell(self, kind: Kind, rate: float, trusted: int) -> Cell:
        """One of its cells."""
        return Cell(self.data, self.features, self.rows, kind, rate, trusted)


@dataclass(frozen=True)
class CleaningProtocol:
    """How much is run.

    Attributes:
        cells: in order.
        seeds: of each.
    """

    cells: tuple[Cell, ...]
    seeds: int


def _every(field: Field, rates: Sequence[float]) -> Iterator[Cell]:
    """All kinds of noise with all rates and numbers of trusted rows."""
    for kind in KINDS:
        for trusted in field.trusted:
            for rate in rates:
                yield field.cell(kind, rate, trusted)


def _star(field: Field) -> Iterator[Cell]:
    """All kinds with the usual number of trusted rows; other numbers with uniform noise and fewer rates."""
    for kind in KINDS:
        for rate in (0.2, 0.5, 0.7, 0.9) if kind == "uniform" else (0.5, 0.8):
            yield field.cell(kind, rate, field.trusted[0])
    for trusted in field.trusted[1:]:
        for rate in (0.5, 0.9):
            yield field.cell("uniform", rate, trusted)


SMOKE = Field("digits", 16, 100, (40,))
QUICK = (
    Field("digits", 64, 1_000, (100, 50, 400)),
    Field("mnist", 196, 2_000, (300, 50, 1_000)),
    Field("fashion", 196, 2_000, (300, 50, 1_000)),
    Field("20news-topics", 100, 2_000, (300, 60, 1_000)),
)
PAPER = (
    Field("digits", 64, 1_000, (200, 50, 400)),
    Field("mnist", 784, 20_000, (1_000, 50, 200, 5_000)),
    Field("fashion", 784, 20_000, (1_000, 50, 200, 5_000)),
    Field("20news", 10_000, 6_000, (1_000, 50, 200, 5_000)),
)

PROTOCOLS: Mapping[Preset, CleaningProtocol] = {
    "smoke": CleaningProtocol((SMOKE.cell("uniform", 0.5, 40), SMOKE.cell("pairs", 0.7, 40)), 2),
    "quick": CleaningProtocol(tuple(cell for each in QUICK for cell in _star(each)), 5),
    "paper": CleaningProtocol(
        tuple(cell for each in PAPER for cell in _every(each, (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))), 5
    ),
}
