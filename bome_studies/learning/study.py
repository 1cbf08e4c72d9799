"""A study that compares all methods on learning tasks: what hyper-cleaning and regularisation have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bome._typing import Report
from bome_studies.learning.claims import rows_of, sections
from bome_studies.learning.comparison import Comparison, References, compare
from bome_studies.learning.protocol import LearningProtocol
from bome_studies.notes import paragraph, points
from bome_studies.page import command
from bome_studies.study import Claim, Findings, Preset, decided


@dataclass(frozen=True)
class LearningStudy:
    """Every method on some learning tasks, beside models that learn without an outer problem.

    Attributes:
        name: as on the command line.
        title: for people.
        lines: the reference models in the figures, and what they are called there.
        protocols: how much each preset runs.
        references: the reference models of a task for a seed, and what they reach.
        claims: what is claimed, and what was found on a task.
        words: what stands in the notes of `notes.md`, which are about this study and how it was tuned, by name.
        cleaning: whether v marks samples, so that there are precision and recall.
    """

    name: str
    title: str
    lines: Mapping[str, str]
    protocols: Mapping[Preset, LearningProtocol]
    references: References
    claims: Callable[[Comparison], Iterator[Claim]]
    words: Mapping[str, str]
    cleaning: bool

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; what is finished in `folder` is read, not run again."""
        protocol = self.protocols[preset]
        if preset == "paper":
            protocol = replace(protocol, workers=workers)
        comparisons = compare(protocol, self.references, preset, folder, report)
        extra, made_by = [*protocol.extra], command(self.name, preset)
        about = [paragraph(__file__, f"about {self.name}"), paragraph(__file__, "choice")]
        return Findings(
            title=self.title,
            about=" ".join([*about, paragraph(__file__, "smoke")] if preset == "smoke" else about),
            sections=tuple(
                part for each in comparisons for part in sections(each, self.lines, extra, cleaning=self.cleaning)
            ),
            claims=decided((claim for each in comparisons for claim in self.claims(each)), preset),
            rows=tuple(row for each in comparisons for row in rows_of(each, preset, made_by, extra)),
            notes=(
                search_note(protocol),
                *(edge_note(each, protocol) for each in comparisons),
                *points(__file__, f"notes {self.name}", **self.words),
            ),
        )


def search_note(protocol: LearningProtocol) -> str:
    """How the settings of each method were chosen, in words."""
    return paragraph(
        __file__,
        "search",
        inner_steps=_listed(protocol.inner_steps),
        outer_lrs=_listed(protocol.outer_lrs),
        search=f"{protocol.search:g}",
        budget=f"{protocol.budget:g}",
        most_steps=protocol.most_steps,
        seeds=protocol.seeds[0],
        seeds_of_bome=protocol.seeds[1],
    )


def edge_note(comparison: Comparison, protocol: LearningProtocol) -> str:
    """Whose step size of v lies at an end of the grid, so that one beyond it might have been better."""
    ends = {name: pick(protocol.outer_lrs) for name, pick in (("smallest", min), ("largest", max))}
    at_end = {
        f"the {name} ({end:g})": sorted(e.method for e in comparison.entries if e.values["outer_lr"] == end)
        for name, end in ends.items()
    }
    words = "; ".join(f"{name}: {', '.join(methods)}" for name, methods in at_end.items() if methods)
    if not words:
        return f"No method chose a step size of v at an end of the grid on {comparison.task}."
    return f"Step sizes of v at an end of the grid on {comparison.task}: {words}."


def settings_in_words(values: Mapping[str, Any]) -> str:
    """Settings with their values."""
    return ", ".join(f"{key} = {value}" for key, value in values.items())


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{x:g}" for x in values)
