"""The choice among the configurations of a sweep: by validation set 2 where there is one, never by test."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bome.runs.directory import FINISHED
from bome.runs.jobs import Outcome, configuration

CRITERIA = ("val2_loss", "distance_to_optimum", "F", "kkt", "f")
"""What a choice goes by, where it is known: the loss on validation set 2, the distance to the known solution, F(v) if
all have it, how far (v, θ) is from stationary. f comes last: it is lowest where θ does not minimise g."""


@dataclass(frozen=True)
class Choice:
    """A configuration and how its runs went.

    Attributes:
        values: its settings.
        outcomes: of all seeds.
        score: the mean of what chooses, over the seeds; infinite if a run did not finish.
    """

    values: tuple[tuple[str, Any], ...]
    outcomes: tuple[Outcome, ...]
    score: float

    def mean(self, name: str) -> tuple[float, float | None]:
        """Mean and standard error of a quantity at the end, over the seeds that have it."""
        ends = [outcome.last.get(name) for outcome in self.finished]
        return mean_and_error([value for value in ends if value is not None])

    def swept(self, axes: Iterable[str]) -> str:
        """The configuration in words, by those of its settings that are in the grid."""
        return configuration((key, value) for key, value in self.values if key in axes) or "defaults"

    @property
    def finished(self) -> list[Outcome]:
        """Of the runs that came to their end."""
        return [outcome for outcome in self.outcomes if outcome.status == FINISHED]


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard error; none from a single value."""
    if not values:
        return math.nan, None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return statistics.fmean(values), error


def ranked(outcomes: Iterable[Outcome]) -> list[Choice]:
    """The configurations, best first by their `criterion`; never by test."""
    by_values: dict[tuple[tuple[str, Any], ...], list[Outcome]] = {}
    for outcome in (everything := tuple(outcomes)):
        by_values.setdefault(outcome.job.values, []).append(outcome)
    by = criterion(everything)
    choices = [Choice(values, tuple(runs), _score(runs, by)) for values, runs in by_values.items()]
    return sorted(choices, key=lambda choice: choice.score)


def criterion(outcomes: Iterable[Outcome]) -> str:
    """By what these runs are judged: the first of `CRITERIA` that any of them has; F only if all finished have it."""
    outcomes = list(outcomes)
    ends = [outcome.last for outcome in outcomes]
    finished = [outcome.last.get("F") for outcome in outcomes if outcome.status == FINISHED]
    known = [name for name in CRITERIA if any(end.get(name) is not None for end in ends)]
    return next((name for name in known if name != "F" or None not in finished), CRITERIA[-1])


def observed(choices: Iterable[Choice]) -> list[str]:
    """What is observed at the end of some run, in order."""
    return list(dict.fromkeys(name for choice in choices for outcome in choice.outcomes for name in outcome.observed))


def not_finished(choices: Iterable[Choice]) -> list[tuple[Choice, Outcome]]:
    """The runs that did not come to their end, each with its configuration."""
    return [(choice, outcome) for choice in choices for outcome in choice.outcomes if outcome.status != FINISHED]


def _score(outcomes: Sequence[Outcome], by: str) -> float:
    scores = [outcome.last.get(by) for outcome in outcomes]
    if any(outcome.status != FINISHED for outcome in outcomes) or any(score is None for score in scores):
        return math.inf
    return statistics.fmean(float(score) for score in scores if score is not None)
