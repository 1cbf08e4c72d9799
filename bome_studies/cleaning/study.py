"""The cleaning benchmark: `HyperCleaner` against cleanlab and simple baselines, over kinds and shares of noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bome_studies.cleaning import figures as figures
from bome_studies.cleaning.claims import claims, remarks, rows_of
from bome_studies.cleaning.data import KINDS, Cell, Kind
from bome_studies.cleaning.trials import ACCURACY, AUC, F1, Results, carry_out
from bome_studies.learning.claims import decided
from bome_studies.learning.figures import drawing
from bome_studies.page import command
from bome_studies.study import Findings, Preset, Report, Section

ABOUT = (
    "Many rows with doubtful labels stand beside a few trusted rows. HyperCleaner, as it comes, is compared with "
    "cleanlab, with models of all rows and of the trusted rows alone, and with simple methods for noisy labels. All "
    "fit the same linear model to the same features; baselines have their penalty chosen by cross-validation on the "
    "trusted rows. Test rows only report."
)

NOTES = (
    "Uniform noise draws a label anew among all classes, so that it may stay right by chance; pairs turn a label into "
    "that of the next class; per-class noise is uniform with a rate of its own for each class; instance noise has a "
    "rate for each row and leads to a class that depends on its features.",
    "cleanlab: CleanLearning on all rows, told never to remove a trusted row. Pruning: rows whose label a model of the "
    "trusted rows agrees with. GLC: gold loss correction (Hendrycks et al., 2018). Small loss: iteratively trimmed "
    "loss (Shen and Sanghavi, 2019), the share to keep being estimated on the trusted rows. GCE: generalised cross "
    "entropy with q = 0.7 (Zhang and Sabuncu, 2018). All baselines also train on the trusted rows.",
    "The penalty of each baseline has the highest accuracy on trusted rows held out in five parts. The suspicion of a "
    "label is one less its probability by the method's model; HyperCleaner and cleanlab have scores of their own. F1 "
    "is that of the labels a method holds to be wrong.",
    "The standard error of a difference is that of the paired differences over the seeds. Times are seconds of the "
    "processor with the choice of the penalty.",
)


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
class Protocol:
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

PROTOCOLS: Mapping[Preset, Protocol] = {
    "smoke": Protocol((SMOKE.cell("uniform", 0.5, 40), SMOKE.cell("pairs", 0.7, 40)), 2),
    "quick": Protocol(tuple(cell for each in QUICK for cell in _star(each)), 5),
    "paper": Protocol(tuple(cell for each in PAPER for cell in _every(each, (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))), 5),
}


class Cleaning:
    """The cleaning benchmark."""

    name = "bench-clean"

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        protocol = PROTOCOLS[preset]
        results = carry_out(protocol.cells, protocol.seeds, folder, report, workers)
        return findings(results, preset)


CLEANING = Cleaning()


def findings(results: Results, preset: Preset) -> Findings:
    """Everything that the results say."""
    return Findings(
        title="Cleaning noisy labels",
        about=ABOUT,
        sections=tuple(_sections(results)),
        claims=decided(claims(results), preset),
        rows=tuple(rows_of(results, preset, command(Cleaning.name, preset))),
        notes=(*NOTES, *remarks(results)),
    )


def _sections(results: Results) -> Iterator[Section]:
    yield Section(
        "Against the best baseline",
        "In each cell the best of all baselines by its mean test accuracy, so that the bar is higher than any of them.",
        (
            drawing(
                "to-best",
                "Test accuracy less that of the best baseline",
                f"Points, mean over {results.seeds} seeds; a star where it is lower by more than a standard error.",
                figures.to_best_map(results),
            ),
            drawing("times", "Time of each method", "On a logarithmic scale.", figures.times(results)),
        ),
    )
    for data in dict.fromkeys(cell.data for cell in results.cells):
        yield _section(results, data)


def _section(results: Results, data: str) -> Section:
    cells = [cell for cell in results.cells if cell.data == data]
    usual = [cell for cell in cells if cell.trusted == cells[0].trusted]
    uniform = [cell for cell in cells if cell.kind == "uniform"]
    shared = [cell for cell in uniform if _all_trusted(uniform, cell.rate) == _all_trusted(uniform)]
    titles = {ACCURACY: "Test accuracy", AUC: "AUC of finding wrong labels", F1: "F1 of finding wrong labels"}
    drawings = [
        drawing(
            f"{data}-{metric}",
            f"{title} on {data} with {cells[0].trusted:,} trusted rows",
            f"Mean over {results.seeds} seeds; the band is the standard error of bome.",
            figures.by_rate(results, usual, metric),
        )
        for metric, title in titles.items()
    ]
    if len(_all_trusted(shared)) > 1:
        drawings.append(
            drawing(
                f"{data}-trusted",
                f"Test accuracy on {data} by the number of trusted rows",
                "Uniform noise.",
                figures.by_trusted(results, shared),
            )
        )
    about = f"{cells[0].rows:,} doubtful rows with {cells[0].features:,} features."
    return Section(data, about, tuple(drawings))


def _all_trusted(cells: Sequence[Cell], rate: float | None = None) -> set[int]:
    """The numbers of trusted rows, of cells with a rate where one is given."""
    return {cell.trusted for cell in cells if rate is None or cell.rate == rate}
