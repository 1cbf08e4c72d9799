"""The theory of the paper, measured: rates with fitted slopes beside the bounds, on random instances."""

from collections.abc import Callable
from pathlib import Path

from bome._typing import Report
from bome_studies.study import SMOKE_NOTE, Findings, Preset, findings_of
from bome_studies.theory.basins import basins
from bome_studies.theory.evidence import Evidence, Topic
from bome_studies.theory.floors import floors, schedules
from bome_studies.theory.inner_loop import inner_decay, inner_steps
from bome_studies.theory.outer_loop import inequalities, outer_decay, proposition
from bome_studies.theory.protocol import sweeps
from bome_studies.theory.trials import outcomes_of

TOPICS: tuple[Callable[[Evidence], Topic], ...] = (
    floors,
    schedules,
    inner_steps,
    inner_decay,
    outer_decay,
    inequalities,
    proposition,
    basins,
)


class Theory:
    """The theory study."""

    name = "theory"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; sweeps that are finished in `folder` are read, not run again."""
        batches = sweeps(preset)
        outcomes = outcomes_of(batches, folder, report, workers)
        evidence = Evidence(preset, {sweep.name: sweep for sweep in batches}, outcomes)
        topics = [topic(evidence) for topic in TOPICS]
        return findings_of(
            __file__,
            "The theory of the paper",
            preset,
            (topic.section for topic in topics),
            (claim for topic in topics for claim in topic.claims),
            (row for topic in topics for row in topic.rows),
            before=[SMOKE_NOTE] if preset == "smoke" else [],
        )


THEORY = Theory()
