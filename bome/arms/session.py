"""A race with all that surrounds it: its record, the clock, signals, and word to whoever wants to know."""

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bome.arms.arm import STEPS
from bome.arms.race import FIRST, Race, Terms
from bome.arms.result import Trained, certificate, warnings
from bome.core.signals import obey
from bome.data.streams import Data
from bome.errors import ProblemError, UnsupportedError
from bome.loop import Record
from bome.methods.base import Info
from bome.methods.probe import Probe
from bome.oracles import make
from bome.problem import Problem
from bome.stopping import Progress
from bome.storage import checkpoint
from bome.storage.past import history_until, newest_state, states

INTERRUPTED = "interrupted by"
"""How the status begins where a signal has ended a race; its name follows."""


class StoppedError(Exception):
    """Raised within a race that must stop where it is."""


class Session:
    """One call of `solve` with minibatches.

    Attributes:
        race: where the race is.
        history: a row for each outer step, and one for each v that was judged.
    """

    def __init__(
        self,
        problem: Problem,
        data: Data,
        terms: Terms,
        *,
        seconds: float | None = None,
        asked: Sequence[int] = (),
        record: Record | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.problem, self.terms = problem, terms
        self._limit, self._asked, self._record, self._progress = seconds, asked, record, progress
        self._began = time.time()
        oracle = make(problem, "auto")
        if oracle.ranks is not None:
            raise UnsupportedError("solve works in one process: on several ranks take bome.run with probe or bome-z")
        saved = None if record is None else newest_state(record.folder, resume=record.resume)
        self.race = Race(oracle, data, terms, clock=self._clock, watch=self._watch, told=self._told)
        if saved is not None:
            self._began -= saved["seconds"]
            self.race.load_state_dict(saved["race"])
        self.history = history_until(None if record is None else record.folder, self.race.ticks)

    def run(self) -> str:
        """The race until something ends it; why."""
        try:
            self.race.run()
        except StoppedError:
            self._save()
            return f"{INTERRUPTED} {signal.Signals(self._asked[0]).name}" if self._asked else self._late()
        except KeyboardInterrupt:
            return f"{INTERRUPTED} {signal.SIGINT.name}"
        self._save()
        timed = self._clock() > sum(self.race.spent.values()) / self.terms.budget
        return self._late() if timed else f"the budget of {self.terms.budget} evaluations allows no more"

    def result(self, status: str) -> Trained:
        """The best so far; it is left in the variables."""
        race = self.race
        if FIRST not in race.judged:
            race.origin.write_all(self.problem)
            obey(self._asked)
            raise ProblemError("the budget or the seconds ended before the first v was judged: allow more")
        race.best.write_all(self.problem)
        won, choices, verdict = race.judged[race.winner], self.terms.choices, certificate(race.judged, race.winner)
        return Trained(
            v=self.problem.v.value,
            theta=self.problem.theta.value,
            status=status,
            steps=race.steps,
            f=won.F,
            q=verdict.q,
            history=self.history,
            certificate=verdict,
            evaluations=race.counts,
            seconds=self.seconds,
            tuned={
                "alpha": race.alphas[race.winner],
                "T": choices.steps or STEPS,
                "reach": choices.reach or Probe.reach,
                **race.rates,
                "horizon": self.terms.horizon,
            },
            state=self.saved(),
            arm=race.winner,
            live=won.f,
            arms=dict(race.judged),
            spent=dict(race.spent),
            warnings=warnings(race.judged, race.winner),
        )

    @property
    def seconds(self) -> float:
        """Since the beginning, with those of earlier processes."""
        return time.time() - self._began

    def saved(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {"race": self.race.state_dict(), "seconds": self.seconds}

    def _clock(self) -> float:
        """The share of the seconds that has passed."""
        return 0.0 if self._limit is None else self.seconds / self._limit

    def _watch(self) -> None:
        if self._asked or self._clock() > 1:
            raise StoppedError

    def _told(self, stage: str, row: dict[str, float]) -> None:
        """A row for the history, word to whoever wants to know, and now and then a checkpoint."""
        race, spent = self.race, sum(self.race.spent.values())
        counts = {f"n_{kind}": number for kind, number in race.counts.items()}
        self.history.append({"step": race.ticks - 1, "seconds": self.seconds, **counts, "arm": stage, **row})
        if self._record is not None and race.ticks % self._record.save_every == 0:
            self._save()
        if self._progress is not None:
            info = Info(f=torch.tensor(row["f"])) if "f" in row else None
            self._progress(Progress(race.steps, info, spent, self.seconds))

    def _save(self) -> None:
        if self._record is not None:
            self.history.flush()  # a checkpoint must not be newer than its history
            checkpoint.save(states(self._record.folder), self.race.ticks, self.saved())

    def _late(self) -> str:
        return f"{self._limit} seconds spent"
