"""Many runs, in rounds: the first from the start, others from random v, and from v near the best.

    Round 0:    two from the start with σ₀ = 1 and 100 units, two from a random v
    Round r:    two from a v near the best of the rounds before, two from a random v; σ₀ in turn

A run depends on its number, the seed and the rounds before alone: so the runs of a round may be done side by side, and
a budget that ends within a round is applied to them one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bome.nested.continuation import Continuation, Run
from bome.nested.losses import Losses
from bome.nested.sets import TOLERATED, ByProjection, ByRows, Sets
from bome.nested.survey import NEAR, Dice, Survey
from bome.nested.value import Point, ValueFunction

ROUND = 4
"""Runs of a round."""
FIRST = (1.0, 100.0)
"""σ₀ in units, in turn."""
RANDOM = (0.3, 3.0)
"""The shares of the reach at which random v lie."""
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
        return Continuation(value, self.seed, self.survey.theta, self.survey.reach_v)

    def refresh(self) -> None:
        """Know no other rows of the Jacobian than those of the start, as a process does that begins here."""
        if self.survey.kept is not None:
            self.losses.kept = self.survey.kept

    def start(self, number: int, found: Sequence[Point]) -> Run:
        """A run at its beginning, given what the rounds before have found."""
        survey = self.survey
        self.refresh()
        sigma = survey.units.sigma * FIRST[number % len(FIRST)]
        v, theta = survey.v, survey.theta
        if number >= len(FIRST):
            dice = Dice(self.seed, 2, number)
            near = number % ROUND < len(FIRST) and bool(found)
            best = min(found, key=lambda point: score(point, PENALTY * survey.units.sigma)) if near else None
            sets = sets_of(self.losses)
            for _ in range(DRAWS):
                if best is not None:
                    wanted, hint = dice.around(best.v, survey.reach_v, NEAR), best.theta
                else:
                    wanted = dice.around(survey.v, survey.reach_v, RANDOM)
                    hint = dice.around(survey.theta, survey.units.reach)
                with self.losses.meter.on("shadow"):
                    v, theta, over = sets.shadow(wanted, sets.drawn(hint))
                if over <= TOLERATED:
                    break
        return self.continuation.started(number, v, theta, sigma, survey.kept)
