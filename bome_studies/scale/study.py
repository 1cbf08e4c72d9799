"""The study of scale: how the time and the memory of a step grow, and what that means for a large model."""

from collections.abc import Iterator
from pathlib import Path

from bome._typing import Report
from bome_studies.figures import draw
from bome_studies.notes import points
from bome_studies.page import BENCH, command
from bome_studies.scale import figures as figures
from bome_studies.scale.claims import claims, rows_of
from bome_studies.scale.protocol import PROTOCOLS
from bome_studies.scale.trials import Measured, measured, projection
from bome_studies.study import Findings, Preset, Section, findings_of


class Scale:
    """The study of costs; one process does it, since it takes times."""

    name = f"{BENCH}scale"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Measure; points that are in `folder` are read."""
        by_axis = measured(PROTOCOLS[preset], folder, report)
        rows = rows_of(by_axis, preset, command(self.name, preset))
        return findings_of(
            __file__, "How cost grows", preset, _sections(by_axis), claims(by_axis), rows, before=_projection()
        )


SCALE = Scale()


def _projection() -> tuple[str, ...]:
    numbers = projection()
    words = {name: f"{x:.1f}" for name, x in numbers.items()}
    words |= {"inner_steps": str(numbers["inner_steps"]), "step": f"{numbers['step']:.0f}"}
    return points(__file__, "projection", **words, seconds=f"{numbers['step'] / 300:.1f}")


def _sections(numbers: Measured) -> Iterator[Section]:
    yield Section(
        "Time",
        "The ratio tells what BOME adds to the evaluations; 1 is nothing.",
        tuple(
            draw(
                axis.lower(),
                f"Time by {figures.LABELS[axis]}",
                "Left: seconds of a step. Right: ratio.",
                figures.time,
                numbers[axis],
                axis,
            )
            for axis in numbers
        ),
    )
    yield Section(
        "Memory",
        "Beyond plain training, in copies of the parameters.",
        (
            draw(
                "memory",
                "Extra memory",
                "Flat in T (at 10^5 parameters); two copies for large models, where fixed blocks no longer count.",
                figures.memory,
                numbers,
            ),
            draw("projection", "7·10^9 parameters on 8 GPUs", "By counting; activations left out.", figures.gpus),
        ),
    )
