"""The study of BOLIB: which solver is right on problems that are not its own, and knows it."""

from collections.abc import Iterator
from pathlib import Path

from bome._typing import Report
from bome.tasks.bolib import RECORDS
from bome_studies.bolib import figures as figures
from bome_studies.bolib.claims import claims, problems_of, rows_of, table, verdicts
from bome_studies.bolib.protocol import PROTOCOLS
from bome_studies.bolib.trials import Results, measured
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.page import BENCH, command
from bome_studies.study import Findings, Preset, Section, Table, findings_of


class Bolib:
    """The study of problems with known optima."""

    name = f"{BENCH}bolib"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        results = measured(PROTOCOLS[preset], folder, report, workers)
        rows = rows_of(results, preset, command(self.name, preset))
        return findings_of(__file__, "Problems with known optima", preset, _sections(results), claims(results), rows)


BOLIB = Bolib()


def _sections(results: Results) -> Iterator[Section]:
    yield Section(
        "Who solves how many",
        paragraph(__file__, "who"),
        (
            draw(
                "profile",
                "Problems solved over evaluations",
                "Mean over the seeds. A method that takes no constraints is not drawn on the right.",
                figures.profile,
                results,
            ),
        ),
        table(results),
    )
    yield Section(
        "Designed on, and never seen",
        paragraph(__file__, "halves"),
        (
            draw(
                "halves",
                "Two parts of the library",
                "At the end of the budget, which is larger for bome.solve.",
                figures.halves,
                results,
            ),
        ),
    )
    yield Section(
        "Which problems",
        paragraph(__file__, "which"),
        (
            draw(
                "chart",
                "Every problem, every solver",
                "At the end of the budget, which is larger for bome.solve.",
                figures.chart,
                results,
            ),
        ),
    )
    yield Section(
        "Whose verdicts are true",
        paragraph(__file__, "verdicts"),
        (
            draw(
                "verdicts",
                "Verdicts",
                "At the end of the budget, which is larger for bome.solve, all seeds.",
                figures.verdicts,
                results,
            ),
        ),
        verdicts(results),
    )
    yield Section("How to score a solver of your own", paragraph(__file__, "score"), ())
    yield Section("The problems", paragraph(__file__, "problems"), (), _problems(results))


def _problems(results: Results) -> Table:
    records = [RECORDS[name] for name in problems_of(results)]
    rows = [(r.name, r.kind, f"{r.optimum:.6g}", r.status, r.source, r.correction) for r in records]
    return Table(("problem", "kind", "optimal f", "in BOLIB", "source", "correction"), tuple(rows))
