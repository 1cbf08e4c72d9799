"""A search with all that surrounds it: its record, the clock, signals, and word to whoever wants to know."""

import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from bome.errors import ProblemError
from bome.loop import Record
from bome.methods.base import Info
from bome.nested.continuation import Run, points
from bome.nested.losses import Losses, Meter, Spent
from bome.nested.search import ROUND, Search, State, advanced, sets_of, side_by_side
from bome.nested.state import plain, revived
from bome.nested.survey import Survey, survey
from bome.nested.value import Value
from bome.oracles import make
from bome.problem import Problem
from bome.solver import Solver
from bome.stopping import Progress
from bome.storage import checkpoint
from bome.storage.past import history_until, newest_state, states

CHOICE, EXACT, VERDICT = 250, 125, 600
"""Evaluations that are kept back for what follows the search; of a small budget a tenth, a fortieth and a fifth.

Of a large budget a tenth is kept for the verdict: so more budget answers what a smaller one could not."""
INTERRUPTED = "interrupted by"
"""How the status of a search begins that a signal has ended; its name follows."""
SEARCH_TIME = 0.8
"""The share of the seconds that the search may take."""


@dataclass(frozen=True)
class Terms:
    """What was asked for.

    Attributes:
        budget: the most evaluations.
        seconds: the most seconds.
        runs: the most runs.
        seed: of random starts.
        jobs: how many runs are done side by side.
        inner: what solves the inner problem; None for descents of g.
    """

    budget: int
    seconds: float | None = None
    runs: int | None = None
    seed: int = 0
    jobs: int = 1
    inner: Solver | None = None

    @property
    def verdict(self) -> int:
        """Evaluations that are kept back for the verdict."""
        return max(min(VERDICT, self.budget // 5), self.budget // 10)

    @property
    def choice(self) -> int:
        """Evaluations that are kept back for the choice."""
        return min(CHOICE, self.budget // 10)

    @property
    def exact(self) -> int:
        """Evaluations that are kept back for θ of the chosen point."""
        return min(EXACT, self.budget // 40)


class Session:
    """One call of `solve`.

    Attributes:
        losses: of the problem.
        search: where runs start.
        state: where the search is.
        history: a row for each evaluation of ψ.
    """

    def __init__(
        self,
        problem: Problem,
        terms: Terms,
        asked: Sequence[int] = (),
        record: Record | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.terms, self._asked, self._record, self._progress = terms, asked, record, progress
        self._began = time.time()
        self.losses = Losses(problem, make(problem, "auto"), Meter(), terms.inner)
        self.allow(terms.budget - terms.verdict - terms.exact - terms.choice, SEARCH_TIME)
        saved = None if record is None else newest_state(record.folder, resume=record.resume)
        if saved is None:
            around = survey(self.losses, sets_of(self.losses), terms.seed)
            self.state = State(spent=dict(self.losses.meter.spent), counts=dict(self.losses.oracle.counts))
        else:
            around, self.state = self._resumed(saved)
        self.search = Search(self.losses, around, terms.seed)
        self.history = history_until(None if record is None else record.folder, self.state.steps)

    def allow(self, evaluations: int, share: float = 1.0) -> None:
        """So many evaluations in all, and this share of the seconds; before the end of the search, until a signal."""
        meter, seconds = self.losses.meter, self.terms.seconds
        meter.limit = evaluations
        self._until = math.inf if seconds is None else self._began + share * seconds
        meter.over = self._over if share < 1 else self._late

    def run(self) -> str:
        """Runs until something ends them; why."""
        terms = self.terms
        try:
            while terms.runs is None or len(self.state.ended) < terms.runs:
                before = self.state
                self.state = self._advanced()
                if self.state.steps > before.steps:
                    self._tell()
                self._save_sometimes(before.steps)
        except Spent:
            if self._asked:
                return f"{INTERRUPTED} {signal.Signals(self._asked[0]).name}"
            return (
                f"{terms.seconds} seconds spent"
                if self._late()
                else f"the budget of {terms.budget} evaluations allows no more"
            )
        except KeyboardInterrupt:
            return f"{INTERRUPTED} {signal.SIGINT.name}"
        finally:
            self._save()
        return f"{terms.runs} runs done"

    def onward(self, value: Value) -> Run:
        """One more run, from where ψ is known, for as long as it may last."""
        search, known = self.search, value.place.known
        search.refresh()
        run = search.continuation.started(len(self.state.begun), known.v, known.theta, known.sigma, search.survey.kept)
        run = replace(run, memory=replace(run.memory, z=value.memory.z, y=value.memory.y))
        try:
            while run.ended is None:
                run = search.continuation.advance(run)
        except Spent:
            pass
        return run

    def row(self) -> dict[str, float | int | str | None]:
        """What every row of the history has."""
        counts = {f"n_{kind}": number for kind, number in self.state.counts.items()}
        return {"step": self.state.steps, "seconds": self.seconds, **counts}

    @property
    def seconds(self) -> float:
        """Since the beginning, with those of earlier processes."""
        return time.time() - self._began

    def saved(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "survey": plain(self.search.survey),
            "state": plain(self.state),
            "seed": self.terms.seed,
            "seconds": self.seconds,
        }

    def _advanced(self) -> State:
        """A step further, or a whole round."""
        terms, number = self.terms, len(self.state.ended)
        if terms.jobs > 1 and self.state.run is None and number % ROUND == 0:
            most = ROUND if terms.runs is None else min(ROUND, terms.runs - number)
            after = side_by_side(self.search, self.state, most, terms.jobs, self._until)
            if after is not self.state:
                return after
        return advanced(self.search, self.state)

    def _resumed(self, saved: dict[str, Any]) -> tuple[Survey, State]:
        """The search as a checkpoint has it."""
        if saved["seed"] != self.terms.seed:
            raise ProblemError(f"the record is of seed {saved['seed']}: continue with this seed, or in another folder")
        state: State = revived(saved["state"])
        self._began -= saved["seconds"]
        self.losses.meter.spent = Counter(state.spent)
        self.losses.oracle.counts = Counter(state.counts)
        return revived(saved["survey"]), state

    def _tell(self) -> None:
        """A row for the history, and word to whoever wants to know."""
        row, run = self.row(), self.state.begun[-1]
        point = (*points(run), None)[-2] if points(run) else None
        row |= {"step": self.state.steps - 1, "run": run.number, "level": run.level, "sigma": run.sigma}
        row |= {} if point is None else {"f": point.f, "q": point.q}
        self.history.append(row)
        if self._progress is not None:
            info = None if point is None else Info(f=torch.tensor(point.f), q=torch.tensor(point.q))
            self._progress(Progress(self.state.steps, info, self.losses.meter.total, self.seconds))

    def _save_sometimes(self, before: int) -> None:
        every = None if self._record is None else self._record.save_every
        if every is not None and self.state.steps // every > before // every:
            self._save()

    def _save(self) -> None:
        if self._record is not None:
            self.history.flush()  # a checkpoint must not be newer than its history
            checkpoint.save(states(self._record.folder), self.state.steps, self.saved())

    def _over(self) -> bool:
        return bool(self._asked) or self._late()

    def _late(self) -> bool:
        return time.time() > self._until
