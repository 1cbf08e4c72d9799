"""The search as a state: runs one after the other, or those of a round side by side, with the same result."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bome.core.pool import each
from bome.nested.continuation import Run, points
from bome.nested.losses import Losses, Meter, Spent
from bome.nested.search import ROUND, Search
from bome.nested.survey import Survey
from bome.nested.value import Memory, Point
from bome.oracles import make
from bome.problem import Problem
from bome.solver import Solver


@dataclass(frozen=True)
class State:
    """Where a search is.

    Attributes:
        ended: the runs that have ended, without what only goes on needs.
        run: the one that is under way.
        spent: evaluations, for each purpose.
        counts: evaluations, by kind.
        steps: evaluations of ψ.
    """

    ended: tuple[Run, ...] = ()
    run: Run | None = None
    spent: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    steps: int = 0

    @property
    def begun(self) -> tuple[Run, ...]:
        """All runs."""
        return self.ended if self.run is None else (*self.ended, self.run)

    @property
    def found(self) -> list[Point]:
        """The best points of all levels of all runs."""
        return [point for run in self.begun for point in points(run)]

    @property
    def earlier(self) -> list[Point]:
        """The points of the rounds that are over: what runs of this round may know."""
        whole = len(self.ended) // ROUND * ROUND
        return [point for run in self.ended[:whole] for point in points(run)]


def advanced(search: Search, state: State) -> State:
    """The search after one evaluation of ψ, or after the beginning of a run."""
    if state.run is None:
        return _marked(search, replace(state, run=search.start(len(state.ended), state.earlier)))
    run = search.continuation.advance(state.run)
    state = replace(state, run=run, steps=state.steps + 1)
    if run.ended is not None:
        state = replace(state, ended=(*state.ended, slim(run)), run=None)
    return _marked(search, state)


def _marked(search: Search, state: State) -> State:
    """With what was spent up to here."""
    losses = search.losses
    return replace(state, spent=dict(losses.meter.spent), counts=dict(losses.oracle.counts))


def slim(run: Run) -> Run:
    """A run that has ended, without what only going on needs."""
    return replace(run, memory=Memory(), descent=None, kept=None)


@dataclass(frozen=True)
class Part:
    """A run of a round, as a process of its own does it."""

    number: int
    found: Sequence[Point]


@dataclass(frozen=True)
class Done:
    """What became of it.

    Attributes:
        run: at its end; None if the budget was not enough for it.
        spent: evaluations, for each purpose.
        counts: evaluations, by kind.
    """

    run: Run | None
    spent: dict[str, int]
    counts: dict[str, int]


def done(
    problem: Problem, inner: Solver | None, survey: Survey, seed: int, limit: float, until: float, part: Part
) -> Done:
    """The work of a process: one run, from its beginning to its end."""
    losses = Losses(problem, make(problem, "auto"), Meter(limit, lambda: time.time() > until), inner)
    losses.oracle.counts.clear()
    search = Search(losses, survey, seed)
    run: Run | None = None
    try:
        run = search.start(part.number, part.found)
        while run.ended is None:
            run = search.continuation.advance(run)
    except Spent:
        run = None
    return Done(None if run is None else slim(run), dict(losses.meter.spent), dict(losses.oracle.counts))


def side_by_side(search: Search, state: State, most: int, jobs: int, until: float) -> State:
    """A round, or as much of it as the budget allows: as if its runs had been done one after the other.

    Args:
        search: where runs start.
        state: at the beginning of the round.
        most: runs in it.
        jobs: processes.
        until: when they have to stop, in seconds since the epoch.
    """
    losses = search.losses
    first = len(state.ended)
    left = losses.meter.limit - losses.meter.total
    work = partial(done, losses.problem, losses.inner, search.survey, search.seed, left, until)
    parts = [Part(number, state.earlier) for number in range(first, first + most)]
    results = {part.number: result for part, result in each(work, parts, jobs)}
    for number in range(first, first + most):
        result = results[number]
        if result.run is None or sum(result.spent.values()) > losses.meter.limit - losses.meter.total:
            return state
        losses.meter.spent += Counter(result.spent)
        losses.oracle.counts += Counter(result.counts)
        state = replace(state, ended=(*state.ended, result.run), steps=state.steps + result.run.psi)
        state = _marked(search, state)
    return state
