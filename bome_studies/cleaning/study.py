"""The cleaning study: `HyperCleaner` against cleanlab and simple baselines, over kinds and shares of noise."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bome._typing import Report
from bome_studies.cleaning import figures as figures
from bome_studies.cleaning.claims import claims, remarks, rows_of
from bome_studies.cleaning.data import Cell
from bome_studies.cleaning.protocol import PROTOCOLS
from bome_studies.cleaning.trials import ACCURACY, AUC, F1, Results, scores_of
from bome_studies.figures import draw
from bome_studies.page import BENCH, command
from bome_studies.study import Findings, Preset, Section, findings_of


class Cleaning:
    """The cleaning study."""

    name = f"{BENCH}clean"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        protocol = PROTOCOLS[preset]
        return findings(scores_of(protocol.cells, protocol.seeds, folder, report, workers), preset)


CLEANING = Cleaning()


def findings(results: Results, preset: Preset) -> Findings:
    """Everything that the results say."""
    rows = rows_of(results, preset, command(CLEANING.name, preset))
    return findings_of(
        __file__, "Cleaning noisy labels", preset, _sections(results), claims(results), rows, after=remarks(results)
    )


def _sections(results: Results) -> Iterator[Section]:
    yield Section(
        "Against the best baseline",
        "In each cell the best of all baselines by its mean test accuracy, so that the bar is higher than any of them.",
        (
            draw(
                "to-best",
                "Test accuracy minus that of the best baseline",
                f"Points, mean over {results.seeds} seeds; a star where it is lower by more than a standard error.",
                figures.to_best_map,
                results,
            ),
            draw("times", "Time of each method", "On a logarithmic scale.", figures.times, results),
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
        draw(
            f"{data}-{metric}",
            f"{title} on {data} with {cells[0].trusted:,} trusted rows",
            f"Mean over {results.seeds} seeds; the band is the standard error of bome.",
            figures.by_rate,
            results,
            usual,
            metric,
        )
        for metric, title in titles.items()
    ]
    if len(_all_trusted(shared)) > 1:
        drawings.append(
            draw(
                f"{data}-trusted",
                f"Test accuracy on {data} by the number of trusted rows",
                "Uniform noise.",
                figures.by_trusted,
                results,
                shared,
            )
        )
    about = f"{cells[0].rows:,} doubtful rows with {cells[0].features:,} features."
    return Section(data, about, tuple(drawings))


def _all_trusted(cells: Sequence[Cell], rate: float | None = None) -> set[int]:
    """The numbers of trusted rows, of cells with a rate where one is given."""
    return {cell.trusted for cell in cells if rate is None or cell.rate == rate}
