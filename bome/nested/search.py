"""Many runs, in rounds: the first from the start, others from random v, and from v near the best.

    Round 0:    two from the start with σ₀ = 1 and 100 units, two from a random v
    Round r:    two from a v near the best of the rounds before, two from a random v; σ₀ in turn

A run depends on its number, the seed and the rounds before alone: so the runs of a round may be done side by side, and
a budget that ends within a round is applied to them one after the other.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bome.core.pool import each
from bome.nested.continuation import Continuation, Run, points
from bome.nested.losses import Losses, Meter, Spent
from bome.nested.sets import TOLERATED, ByProjection, ByRows, Sets
from bome.nested.survey import NEAR, Dice, Survey
from bome.nested.value import Memory, Point, ValueFunction
from bome.oracles import make
from bome.problem import Problem
from bome.solver import Solver

ROUND = 4
"""Runs of a round."""
FIRST = (1.0, 100.0)
"""σ₀ in units, in turn."""
PENALTY = 1e4
"""σ by which points are compared, in units."""
DRAWS = 20
"""Random v that are drawn until some θ is feasible."""


def sets_of(losses: Losses) -> Sets:
    """Where v and θ may be."""
    return ByProjection(losses) if losses.layout is None else ByRows(losses)


def score(point: Point, penalty: float) -> float:
    """f + σ q: what points are compared by."""
    return point.f + penalty * max(point.q, 0.0)


@dataclass(frozen=True)
class Search:
    """Where runs start.

    Attributes:
        losses: of the problem.
        survey: of its start.
        seed: of random points.
    """

    losses: Losses
    survey: Survey
    seed: int

    @property
    def continuation(self) -> Continuation:
        """How runs go on."""
        sets = sets_of(self.losses)
        value = ValueFunction(self.losses, sets, self.survey.units)
        return Continuation(value, self.seed, self.survey.theta, self.survey.v.reach)

    def refresh(self) -> None:
        """Know no other rows of the Jacobian than those of the start, as a process does that begins here."""
        if self.survey.kept is not None:
            self.losses.kept = self.survey.kept

    def start(self, number: int, found: Sequence[Point]) -> Run:
        """A run at its beginning, given what the rounds before have found."""
        survey = self.survey
        self.refresh()
        sigma = survey.units.sigma * FIRST[number % len(FIRST)]
        v, theta = survey.v.start, survey.theta.start
        if number >= len(FIRST):
            dice = Dice(self.seed, 2, number)
            near = number % ROUND < len(FIRST) and bool(found)
            best = min(found, key=lambda point: score(point, PENALTY * survey.units.sigma)) if near else None
            sets = sets_of(self.losses)
            for _ in range(DRAWS):
                if best is not None:
                    wanted, hint = dice.around(best.v, survey.v.reach, NEAR), best.theta
                else:
                    wanted, hint = survey.v.random(dice), survey.theta.random(dice)
                with self.losses.meter.on("shadow"):
                    v, theta, over = sets.shadow(wanted, sets.drawn(hint))
                if over <= TOLERATED:
                    break
        return self.continuation.started(number, v, theta, sigma, survey.kept)


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
        return [point for run in self.before for point in points(run)]

    @property
    def before(self) -> tuple[Run, ...]:
        """The runs of the rounds that are over."""
        return self.ended[: len(self.ended) // ROUND * ROUND]


def advanced(search: Search, state: State) -> State:
    """The search after one evaluation of ψ, or after the beginning of a run."""
    if state.run is None:
        return _marked(search, replace(state, run=search.start(len(state.ended), state.earlier)))
    run = search.continuation.advance(state.run, state.before)
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
    others: Sequence[Run]


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
    losses.oracle.counts.clear()  # of what was charged already before the first round
    losses.meter.spent.clear()
    search = Search(losses, survey, seed)
    run: Run | None = None
    try:
        run = search.start(part.number, part.found)
        while run.ended is None:
            run = search.continuation.advance(run, part.others)
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
    parts = [Part(number, state.earlier, state.before) for number in range(first, first + most)]
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
