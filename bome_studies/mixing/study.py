"""The mixing study: weights of newsgroups and of junk for a small GPT that should do well on one newsgroup."""

from collections.abc import Iterator
from pathlib import Path

from bome._typing import Report
from bome_studies.figures import draw
from bome_studies.mixing import figures as figures
from bome_studies.mixing.claims import claims, rows_of
from bome_studies.mixing.protocol import PROTOCOLS
from bome_studies.mixing.trials import BOME_NAME, F2SA_NAME, Results, learned
from bome_studies.page import BENCH, command
from bome_studies.study import Findings, Preset, Section, findings_of


class Mixing:
    """The study of data mixtures; one process does it."""

    name = f"{BENCH}mix"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        results = learned(PROTOCOLS[preset], folder, report)
        rows = rows_of(results, preset, command(self.name, preset))
        return findings_of(__file__, "Learning a data mixture", preset, _sections(results), claims(results), rows)


MIXING = Mixing()


def _sections(results: Results) -> Iterator[Section]:
    yield Section(
        "What the weights are worth",
        "Fresh models on the same number of tokens.",
        (
            draw(
                "held-out",
                "Loss on held-out text of the target",
                f"Mean of the models of {results.seeds} seeds; a dot for each seed.",
                figures.losses,
                results,
            ),
        ),
    )
    yield Section(
        "The weights",
        "How they are learned, with seed 0, and where they end.",
        (
            draw("bome", "Weights over the steps of BOME", "Dashed: equal weights.", figures.path, results, BOME_NAME),
            draw("f2sa", "Weights over the steps of F2SA", "Dashed: equal weights.", figures.path, results, F2SA_NAME),
            draw("weights", "Weights at the end", "Mean over the seeds.", figures.ends, results),
        ),
    )
