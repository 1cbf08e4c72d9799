"""The study of the applications: what is the v worth that each method finds, with what a stranger would set."""

from collections.abc import Iterator
from pathlib import Path

from bome._typing import Report
from bome_studies.applications import figures as figures
from bome_studies.applications.claims import best, by_hand, claims, right_answers, rows_of, table
from bome_studies.applications.protocol import PROTOCOLS
from bome_studies.applications.trials import Results, collected, measured
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.page import BENCH, command
from bome_studies.study import Findings, Preset, Section, findings_of


class Applications:
    """The study of eight applications."""

    name = f"{BENCH}applications"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        return self._findings(preset, measured(PROTOCOLS[preset], folder, report, workers))

    def so_far(self, preset: Preset, folder: Path) -> Findings:
        """What the finished trials in `folder` tell; nothing is run."""
        return self._findings(preset, collected(PROTOCOLS[preset], folder))

    def _findings(self, preset: Preset, results: Results) -> Findings:
        before = []
        if results.missing:
            before.append(paragraph(__file__, "missing", missing=results.missing))
        if results.factors:
            told = ", ".join(f"{name} on {where}: {factor:g}" for (where, name), factor in results.factors.items())
            before.append(paragraph(__file__, "tuned", factors=told))
        rows = rows_of(results, preset, command(self.name, preset))
        title = "Eight applications"
        return findings_of(__file__, title, preset, _sections(results), claims(results), rows, before=before)


APPLICATIONS = Applications()


def _sections(results: Results) -> Iterator[Section]:
    yield Section("What to use when", paragraph(__file__, "when"), (), best(results))
    yield Section(
        "What v is worth",
        paragraph(__file__, "worth", budget=f"{results.budget:,}"),
        (
            draw(
                "worth",
                "F of everybody",
                "A dot for each seed, the lower the better; who diverges with some seed is not drawn.",
                figures.worth,
                results,
            ),
        ),
        table(results),
    )
    yield Section("Right answers", paragraph(__file__, "test"), (), right_answers(results))
    yield Section("By hand", paragraph(__file__, "hand"), (), by_hand(results))
    yield Section(
        "What a run reports",
        paragraph(__file__, "live"),
        (
            draw(
                "live",
                "F against f at the live θ",
                "All applications and seeds. Where a dot is far above the dashed line, the run flatters.",
                figures.flattery,
                results,
            ),
        ),
    )
