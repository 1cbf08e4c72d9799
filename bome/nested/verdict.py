"""Is it right? Tests at a point, each of which could refute it, and what else is to be known there.

    1:  no lower g is found at v, from fresh and from perturbed θ
    2:  f is the same when the inner problem is solved anew at σ; far from the start, f falls no further
    3:  f is the same with 10 σ
    4:  no v near by has a lower ψ_σ

Beside them: the shadow prices of constraints, f over all inner minimisers that are found, how many runs ended there.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bome.certificate import BOUND, Test, falls_on
from bome.nested.losses import Spent
from bome.nested.sensitivity import Ties, balance, ties
from bome.nested.sets import ByRows, Shadow
from bome.nested.survey import SCATTER, Dice, Extent
from bome.nested.value import KEPT_Z, Memory, Point, Start, Value, ValueFunction

CLAIM = "solved as far as fresh starts can tell"
"""What is said where all tests are passed: no finite number of starts proves a global minimum."""
FRESH, PERTURBED, CLOSE = 12, 2, 3e-4
"""Inner starts, and how close the perturbed ones are, in reaches of θ."""
POLLED, RADII = 8, (0.03, 0.003)
"""v that are looked at, and how far away they are, in reaches of v."""
APART = 0.1
"""The distance from which two polled v count as two, in such radii."""
KINK, SIDES = 1e-4, 5
"""How far away gradients are taken around a kink, in reaches of v; the seed of the directions."""
FAR = 1e3
"""From this distance from the start on, in reaches, it is asked whether a loss falls without end."""
TOLERANCE = 1e-2
"""The relative error of f that counts."""
NAMES = (
    "no θ has a lower g at this v",
    "f is the same when the inner problem is solved anew",
    "f is the same with a tenfold penalty",
    "no v near by is better",
    "inner solutions agree on f",
)


@dataclass(frozen=True)
class Judgement:
    """What was found at a point.

    Attributes:
        g: g there.
        tests: the tests that were done.
        ties: f over the inner minimisers.
        prices: the shadow prices of the constraints.
        onward: where to go on if a test has failed: ψ is the lowest there of all v looked at.
    """

    g: float = math.nan
    tests: tuple[Test, ...] = ()
    ties: Ties | None = None
    prices: Mapping[str, Tensor] = field(default_factory=dict)
    onward: Value | None = None

    def complete(self) -> tuple[Test, ...]:
        """The tests, with a word on those that the budget did not allow."""
        done = {test.name for test in self.tests}
        left = [name for name in NAMES if name not in done]
        return (
            *self.tests,
            *(Test(name, None, None, None, f"the budget ended before it was tested whether {name}") for name in left),
        )


@dataclass(frozen=True)
class Judge:
    """What is asked.

    Attributes:
        value: ψ.
        dice: for random points.
        reach_v: how far v may go.
        theta: where θ may go.
        point: the point that is judged.
    """

    value: ValueFunction
    dice: Dice
    reach_v: float
    theta: Extent
    point: Point

    @property
    def sigma(self) -> float:
        """σ for the tests."""
        return max(self.point.sigma, self.value.units.sigma)

    @property
    def size(self) -> float:
        """Of f, by which errors are measured."""
        return max(self.value.units.f, abs(self.point.f))

    def judged(self) -> Judgement:
        """As many tests as the budget allows."""
        value, point, done = self.value, self.point, Judgement()
        try:
            with value.losses.meter.on("verdict"):
                fresh, test, g = self._lower()
                done = replace(done, g=g, tests=(test,))
                if test.value is None:
                    return done  # without a least g nothing else means anything
                memory = Memory(fresh, (Start(point.theta),), tuple(start.theta for start in fresh))
                here = value.at(point.v, point.theta, self.sigma, memory)
                done = replace(done, tests=(*done.tests, self._bounded(here) or self._same(NAMES[1], here)))
            with value.losses.meter.on("verdict"):
                again = value.at(point.v, point.theta, 10 * self.sigma, here.memory)
                done = replace(done, tests=(*done.tests, self._same(NAMES[2], again)))
                lowest, test = self._polled(here)
                done = replace(done, tests=(*done.tests, test))
                if any(test.passed is False for test in done.tests):
                    done = replace(done, onward=lowest)
            with value.losses.meter.on("ties"):
                found = ties(value, point, here.memory.z, 10 * self.sigma)
                done = replace(done, ties=found, tests=(*done.tests, self._agree(found)))
            if isinstance(value.sets, ByRows) and here.y:
                with value.losses.meter.on("prices"):
                    done = replace(done, prices=self._prices(value.sets, here))
        except Spent:
            pass
        return done

    def _lower(self) -> tuple[tuple[Start, ...], Test, float]:
        """Test 1, the lowest minimisers of g, and g."""
        value, point, reach = self.value, self.point, self.value.units.reach
        many = [theta for _ in range(1 + FRESH // SCATTER) for theta in self.theta.scattered(self.dice)]
        fresh = [value.sets.drawn(theta) for theta in many[:FRESH]]
        near = [value.sets.drawn(point.theta + CLOSE * reach * self.dice.normal(point.theta)) for _ in range(PERTURBED)]
        own = value.losses.weighted(0.0, 1.0, point.v, point.theta, "inner").g
        others = [value.losses.weighted(0.0, 1.0, point.v, y, "inner").g for y in (*fresh, *near)]
        spread = max((abs(g - own) for g in others if math.isfinite(g)), default=0.0)
        first = value.lower(point.v, [Start(point.theta)], self.sigma)
        least = TOLERANCE * self.size / self.sigma
        if first and self._endless(first[0].start.theta, lambda theta: self._sum(0.0, 1.0, theta), least):
            said = f"g falls without end in θ at this v ({first[0].value:.1e}): {BOUND}"
            return (), Test(NAMES[0], None, None, False, said), own
        rest = value.lower(point.v, [Start(y) for y in (*near, *fresh)], self.sigma)
        found = value.distinct([*first, *rest], KEPT_Z)
        gap = own - min((each.value for each in found), default=own)
        limit = TOLERANCE**2 * self.size / self.sigma + 1e-4 * spread
        number = FRESH + PERTURBED
        said = (
            f"no lower g was found from {number} fresh starts"
            if gap <= limit
            else f"another θ has a g that is lower by {gap:.1e}"
        )
        return tuple(each.start for each in found), Test(NAMES[0], gap, limit, gap <= limit, said), own

    def _endless(self, theta: Tensor, look: Callable[[Tensor], float], least: float) -> bool:
        """Whether a loss falls on beyond a θ that is far away."""
        start = self.theta.start
        if not float((theta - start).abs().max()) > FAR * self.value.units.reach:
            return False
        near, far, further = (start + times * (theta - start) for times in (1.0, 10.0, 100.0))
        return falls_on(look(near), look(far), look(further), least)

    def _sum(self, a: float, b: float, theta: Tensor) -> float:
        """a f + b g at the v that is judged."""
        theta = self.value.sets.feasible(self.point.v, theta)
        return self.value.losses.weighted(a, b, self.point.v, theta, "inner").value

    def _bounded(self, here: Value) -> Test | None:
        """Test 2 fails where f has no least value over the inner minimisers, or over v."""
        start, value, least = self.value.losses.v.start, self.value, TOLERANCE * self.size
        endless = bool(here.y) and self._endless(
            here.y[0].start.theta, lambda theta: self._sum(1.0, self.sigma, theta), least
        )
        if not endless and float((self.point.v - start).abs().max()) > FAR * self.reach_v:
            line = [start + times * (self.point.v - start) for times in (10.0, 100.0)]
            far, further = (value.at(v, self.point.theta, self.sigma, here.memory).place.value for v in line)
            endless = falls_on(here.place.value, far, further, least)
        said = f"f falls without end ({self.point.f:.1e} here): {BOUND}"
        return Test(NAMES[1], None, None, False, said) if endless else None

    def _same(self, name: str, again: Value) -> Test:
        """Tests 2 and 3: f found anew."""
        if not again.y:
            return Test(name, None, TOLERANCE, False, "no θ is feasible at this v")
        f = again.place.known.f
        off = abs(f - self.point.f) / self.size
        said = (
            name
            if off <= TOLERANCE
            else f"f is {f:.6g} instead of {self.point.f:.6g}{name.removeprefix('f is the same')}"
        )
        return Test(name, off, TOLERANCE, off <= TOLERANCE, said)

    def _polled(self, here: Value) -> tuple[Value, Test]:
        """The lowest ψ, and test 4: v on both sides in random directions, of which no two are nearly the same."""
        lowest = here
        way, seen = torch.zeros_like(self.point.v), [self.point.v]
        for number in range(POLLED):
            if number % 2 == 0:
                way = self.dice.normal(way)
                way = way / torch.linalg.vector_norm(way)
            far = RADII[number // 2 % len(RADII)] * self.reach_v
            shadow = self.value.sets.shadow(self.point.v + (-1) ** number * far * way, self.point.theta)
            if all(float((shadow.v - v).abs().max()) > APART * far for v in seen):
                seen.append(shadow.v)
                lowest = min(lowest, self._at(shadow, here), key=lambda value: value.place.value)
        gain, number = (here.place.value - lowest.place.value) / self.size, len(seen) - 1
        passed = gain <= TOLERANCE
        said = f"none of {number} v near by is better" if passed else f"a v near by is better by {gain:.1%} of f"
        return lowest, Test(NAMES[3], gain, TOLERANCE, passed, said)

    def _at(self, shadow: Shadow, here: Value) -> Value:
        """ψ near by."""
        return self.value.at(shadow.v, shadow.theta, self.sigma, here.memory)

    def _prices(self, sets: ByRows, here: Value) -> Mapping[str, Tensor]:
        """The shadow prices; none if no mean of gradients of ψ around here is nearly 0."""
        flat, around = TOLERANCE * self.size / self.reach_v, [here]
        found = balance(sets, around, self.sigma)
        dice, way = Dice(SIDES), here.place.x
        for number in range(POLLED):
            if found.left <= flat:
                return found.prices
            way = -way if number % 2 else dice.normal(way)  # on both sides of a kink of ψ
            move = KINK * self.reach_v * way / torch.linalg.vector_norm(way)
            beside = self._at(sets.shadow(here.place.x + move, self.point.theta), here)
            around += [beside] if beside.y else []
            found = balance(sets, around, self.sigma)
        return found.prices if found.left <= flat else {}

    def _agree(self, found: Ties) -> Test:
        """Whether it matters which inner minimiser is taken; if so, that is no failure, but has to be told."""
        off = (found.worst - found.best) / self.size
        if off <= TOLERANCE:
            return Test(NAMES[4], off, None, True, NAMES[4])
        said = f"other inner solutions found have f up to {found.worst:.6g}"
        return Test(NAMES[4], off, None, True, said)


def agreement(ended: int, runs: int) -> Test:
    """How many runs ended at the answer: no test that can fail, as one run may find what no other does."""
    said = "only one run was made" if runs == 1 else f"{max(ended, 1)} of {runs} runs ended here"
    return Test("runs agree", max(ended, 1) / runs, None, True, said)
