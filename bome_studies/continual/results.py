"""The runs of the continual-learning experiment, put together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bome.continual.run import Summary
from bome.runs.choice import mean_and_error
from bome.runs.directory import FINISHED

TUNED = "selected"
"""The variant whose settings were chosen on the tuning tasks."""

NEARER = "nearer"
"""The variant whose settings come near to the paper's row."""

SEEN = "seen"
"""The variant whose replays have samples of the current task too."""

Number = tuple[float, float | None]
"""Mean and standard error."""


@dataclass(frozen=True)
class Runs:
    """The summaries of all seeds."""

    summaries: Sequence[Summary]

    @property
    def finished(self) -> list[Summary]:
        """Those that ended as they should."""
        return [summary for summary in self.summaries if summary.status == FINISHED]

    def values(self, metric: str) -> list[float]:
        """A metric of each seed; empty if a run diverged or does not have it."""
        if len(self.finished) < len(self.summaries):
            return []
        values = [summary.observed.get(metric) for summary in self.summaries]
        known = [float(value) for value in values if value is not None]
        return known if len(known) == len(values) else []

    def mean(self, metric: str) -> Number:
        """Mean over the seeds and its standard error; NaN if it is not known."""
        return mean_and_error(self.values(metric))

    def matrix(self) -> NDArray[np.float64]:
        """The accuracies, mean over the seeds; NaN where they were not measured."""
        matrices = [np.array(summary.matrix, dtype=np.float64) for summary in self.finished]
        return np.mean(matrices, axis=0) if matrices else np.full((1, 1), math.nan)

    def seconds(self) -> list[float]:
        """Processor time of learning each task, mean over the seeds."""
        seconds = [summary.seconds_by_task for summary in self.finished]
        return [float(x) for x in np.mean(seconds, axis=0)] if seconds else []

    def failures(self) -> list[tuple[int, str]]:
        """The seeds that diverged, and why."""
        return [(n, s.reason) for n, s in enumerate(self.summaries) if s.status != FINISHED]


@dataclass(frozen=True)
class Entry:
    """A strategy and its runs.

    Attributes:
        strategy: its name.
        variant: "published", "usual", "selected", "nearer" or "seen".
        values: settings that differ from the usual ones.
        runs: of all seeds.
        tried: the mean ACC on the tuning tasks of all settings among which these were chosen; None where it diverged.
        grid: these settings.
        seeds: how many runs there are to be.
        usual: the usual value of every setting.
    """

    strategy: str
    variant: str
    values: Mapping[str, Any]
    runs: Runs
    tried: tuple[float | None, ...] = ()
    grid: tuple[Mapping[str, Any], ...] = ()
    seeds: int = 0
    usual: Mapping[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all runs have ended."""
        return len(self.runs.summaries) >= self.seeds

    @property
    def title(self) -> str:
        """For people: the name, and whether it is tuned or, where they tell more, the settings."""
        if self.variant == TUNED and self.tried:
            return f"{self.strategy}, tuned"
        return (
            f"{self.strategy}, {self.told}" if self.variant in (NEARER, SEEN, TUNED) and self.values else self.strategy
        )

    @property
    def told(self) -> str:
        """The settings in words."""
        return ", ".join(f"{key} = {value}" for key, value in self.values.items())

    @property
    def at_an_end(self) -> list[str]:
        """The settings that have the largest or the smallest of several numbers that were tried."""
        tried = [{**self.usual, **values} for values in self.grid]
        found = []
        for key, value in {**self.usual, **self.values}.items():
            numbers = {values[key] for values in tried if isinstance(values.get(key), (int, float))}
            if len(numbers) > 1 and value in (min(numbers), max(numbers)):
                found.append(key)
        return found

    @property
    def nearer(self) -> bool:
        """Whether the settings were looked for to come near to the paper's row: no choice one could make beforehand."""
        return self.variant == NEARER


class Missing(NamedTuple):
    """Runs that have not ended: of which variant, and of what, in words."""

    variant: str
    told: str


@dataclass(frozen=True)
class Results:
    """All that was found on a stream.

    Attributes:
        task: the stream.
        entries: the strategies in the order of the paper.
        ablations: BOME with other settings, or without its barrier; their variant is a label.
        missing: strategies of which not all runs have ended.
    """

    task: str
    entries: tuple[Entry, ...]
    ablations: tuple[Entry, ...] = ()
    missing: tuple[Missing, ...] = ()

    def entry(self, strategy: str, variant: str | None = None) -> Entry | None:
        """That of a strategy."""
        return next((e for e in self.entries if e.strategy == strategy and variant in (None, e.variant)), None)

    def is_of_paper(self, entry: Entry) -> bool:
        """Whether the paper's numbers stand beside an entry: not where it is tuned and another one is not."""
        return entry.variant != TUNED or self.entry(entry.strategy) is entry

    @staticmethod
    def difference(a: Entry, b: Entry) -> tuple[Number, str]:
        """ACC of a minus that of b on the seeds that both have: mean and standard error, and all of it in words."""
        apart = [x - y for x, y in zip(a.runs.values("acc"), b.runs.values("acc"), strict=False)]
        number = mean_and_error(apart)
        seeds = f"{len(apart)} common seed{'s' if len(apart) > 1 else ''}"
        return number, f"{in_words(number)} points on {seeds}" if apart else "unknown"


def in_words(number: Number) -> str:
    """Mean and standard error."""
    mean, error = number
    return "unknown" if math.isnan(mean) else f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}"
