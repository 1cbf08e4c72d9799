"""What is asked of an answer, one question after the other; each is answered by a test.

Cheap questions come first, and none is asked after a test that fails: the verdict is known then.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bome._typing import Leaves
from bome.certificate.descent import Place, falls_on, shortest
from bome.certificate.looks import Difference, Looks, SpentError, mean
from bome.certificate.measure import stationarity
from bome.certificate.probe import Probe, Scales, Worth
from bome.certificate.verdict import BOUND, Test
from bome.core.barrier import Metric
from bome.core.trees import axpy, dot, scale, sub
from bome.oracles.base import Eval

TOLERANCE = 0.01
"""What counts as the same value of f, and of g, relative to how much it varies around θ."""
BIAS = 0.3
"""The largest error of the direction, relative to ‖∇f‖, that a finite T may leave."""
BALANCE = 0.05
"""The largest difference between two estimates of the share of ‖∇f‖² that the constraint does not balance."""
GROWTH, FALL = 1e6, 1e12
"""A loss that has grown by the first factor diverges; one that has fallen below 0 by the second falls without end."""
FAR = 1e3
"""An inner descent that goes so far, in units of the size of θ, may have no end."""
RADII = (10.0, -10.0, 1.0, -1.0)
"""How far fresh starts are from θ, in units of its size; every second one is opposite to the one before."""
PUSHES = (1e-3, 1e-2)
"""How far a push moves θ, in the same units."""
MOVES = (0.1, 0.01)
"""How far v is moved, in units of its size."""
OFF = 0.01
"""A g that varies over θ by less, relative to other v, says nothing on θ."""
KINKS = 4
"""How many directions down are tried where the gradient is not the same near by."""


@dataclass(frozen=True)
class Path:
    """2T + 1 inner steps from θ.

    Attributes:
        steps: T.
        values: g at θ^(0), ..., θ^(2T+1).
        first: g and its gradient at θ.
        once: the same at θ^(T), with respect to v.
        twice: the same at θ^(2T).
    """

    steps: int
    values: list[float]
    first: Eval
    once: Eval
    twice: Eval


class Questions:
    """The questions about one point.

    Attributes:
        looks: f and g on all batches at hand.
        probes: the point, seen through all data, or through either half of a sample.
        f: f and its gradient there.
        path: the inner steps from there.
        end: the inner solution, where it is known.
        start: f and g at the start of the run, where they are known.
        batches: how many random batches there are; 0 if the batches are all data.
        metric: the step sizes, for what projections leave of a step.
    """

    def __init__(
        self,
        looks: Looks,
        probes: Sequence[Probe],
        f: Eval,
        path: Path,
        end: Leaves | None,
        start: Mapping[str, float],
        batches: int,
        metric: Metric | None = None,
    ) -> None:
        self.looks, self.probes, self.f, self.path = looks, probes, f, path
        self.end, self.start, self.batches, self.metric = end, start, batches, metric
        self._bias = 0.0

    @cached_property
    def _scales(self) -> Scales:
        """What differences are judged by."""
        return self.probes[0].scales

    def answers(self) -> Iterator[Test]:
        """The tests, until one fails or the evaluations are spent."""
        questions: tuple[tuple[str, Callable[[str], Test | None]], ...] = (
            ("the values are sound", self._sound),
            ("the constraints hold", self._constrained),
            ("the inner steps settle", self._settles),
            ("the batches tell", self._enough_batches),
            ("θ solves the inner problem", self._solved),
            ("T is long enough", self._long_enough),
            ("no fresh start finds a lower g", self._fresh),
            ("no move of v lowers f", self._moves),
            ("g depends on θ", self._depends),
        )
        for name, ask in questions:
            try:
                test = ask(name)
            except SpentError:
                most = int(self.looks.meter.allowed)
                said = f"not tested whether {name}: the certificate may use at most {most:,} evaluations"
                test = Test(name, None, None, None, said)
            if test is None:
                continue
            yield test
            if test.passed is not True:
                return

    def _sound(self, name: str) -> Test:
        """Whether the run diverges."""
        f, g = float(self.f.value), self.path.values[0]
        if not (math.isfinite(f) and math.isfinite(g)):
            return Test(name, None, None, False, f"the run diverged: f = {f:.1e}, g = {g:.1e}")
        values = [(loss, here, self.start.get(loss, here)) for loss, here in (("g", g), ("f", f))]
        for loss, here, before in values:
            if -here > FALL * max(1.0, abs(before)):
                said = f"{loss} falls without end ({loss} = {here:.1e}, after {before:.1e} at the start): {BOUND}"
                return Test(name, -here / max(1.0, abs(before)), FALL, False, said)
        for loss, here, before in values:
            if here > GROWTH * max(1.0, abs(before)):
                said = f"the run diverges: {loss} = {here:.1e}, after {before:.1e} at the start: lower the step sizes"
                return Test(name, here / max(1.0, abs(before)), GROWTH, False, self._cause() or said)
        return Test(name, None, GROWTH, True)

    def _cause(self) -> str | None:
        """That a run diverges since g has no least value."""
        probe = self.probes[0]
        try:
            return self._endless(probe, probe.lower(*probe.point).place)
        except SpentError:
            return None

    def _constrained(self, name: str) -> Test | None:
        """Nothing is known of constraints: a descent of g alone leaves them."""
        if not self.looks.problem.constraints:
            return None
        return Test(name, None, None, None, "the certificate of a run does not look at constraints")

    def _settles(self, name: str) -> Test:
        """Whether the inner steps go down: not to and fro between bounds, and not up."""
        values, steps = self.path.values, self.path.steps
        if not all(map(math.isfinite, values)):
            return Test(name, None, None, False, "the inner steps overflow: lower inner_lr")
        rise = (values[steps] - values[0]) / self._scales.g
        if rise > TOLERANCE:
            said = f"g rises along the look-ahead (q̂ = {values[0] - values[steps]:.1e}): lower inner_lr"
            return Test(name, rise, TOLERANCE, False, said)
        (low, high), (late_low, late_high) = (sorted(values[t : t + 2]) for t in (steps, 2 * steps))
        swing = min(high - low, late_high - late_low) / self._scales.g
        if swing > TOLERANCE and late_high >= high:
            said = f"the inner steps go to and fro (g = {late_low:.3g} and {late_high:.3g} in turn): lower inner_lr"
            return Test(name, swing, TOLERANCE, False, said)
        return Test(name, max(rise, 0.0), TOLERANCE, True)

    def _enough_batches(self, name: str) -> Test | None:
        """Whether what one half of the batches says can be compared with the other."""
        if not self.batches:
            return None
        if self.batches > 1:
            return Test(name, self.batches, None, True)
        said = (
            "measured on one random batch of g and of f only, which the inner steps fit: "
            "run(certify_on=20) measures on more"
        )
        return Test(name, 1, None, None, said)

    def _solved(self, name: str) -> Test:
        """Whether a descent from θ, or the known solution, has a lower g or another f."""
        v, theta = self.probes[0].point
        settled = True
        for probe in self.probes:
            reached = probe.lower(v, theta)
            probe.found.append(reached.place)
            settled = settled and (reached.settled or self.end is not None)
            if self.end is not None:
                probe.found.append(probe.place(v, self.end))
        endless = self._endless(self.probes[0], self.probes[0].best)
        if endless is not None:
            return Test(name, None, TOLERANCE, False, endless)
        fall = mean([judge.g - judge.place(v, probe.best.x).value for probe, judge in self._pairs()])
        shift = mean([float(probe.looks.f(v, probe.best.x, "v").value) - probe.f for probe in self.probes])
        size = Difference(abs(shift.value), shift.noise)
        value = max(fall.value / self._scales.g, size.value / self._scales.f)
        holds = _both(fall.holds(TOLERANCE * self._scales.g), size.holds(TOLERANCE * self._scales.f))
        if holds is False:
            f = float(self.f.value)
            said = f"g can fall by {fall.value:.2g}, and f is {f + shift.value:.4g} there, not {f:.4g}"
            said = f"θ does not solve the inner problem: {said}{self._why(fall.value)}"
            return Test(name, value, TOLERANCE, False, said)
        if holds is None:
            return Test(name, value, TOLERANCE, None, f"the noise of the batches hides whether {name}: take more")
        if not settled:
            said = "g still falls slowly along a descent from θ, so that its end is not known"
            return Test(name, value, TOLERANCE, None, said)
        return Test(name, value, TOLERANCE, True, name)

    def _endless(self, probe: Probe, place: Place) -> str | None:
        """That g has no least value over θ, if a descent has gone far and g falls on along its line."""
        v, theta = probe.point
        way = sub(place.x, theta)
        if not dot(way, way) > FAR**2 * max(1.0, float(dot(theta, theta))):
            return None
        far, onto = math.sqrt(float(dot(way, way))), probe.looks.problem.project_theta
        if place.value > -math.inf:
            off, further = (probe.place(v, onto(axpy(times, way, theta))).value for times in (10.0, 100.0))
            if not falls_on(place.value, off, further, TOLERANCE * self._scales.g):
                return None
        return f"g falls without end in θ at this v ({place.value:.1e} at a distance of {far:.1e}): {BOUND}"

    def _pairs(self) -> list[tuple[Probe, Probe]]:
        """Who descends and who judges: each half of a sample is judged by the other."""
        return list(zip(self.probes, reversed(self.probes), strict=True))

    def _why(self, gap: float) -> str:
        """What the look-ahead has to do with it."""
        values, steps = self.path.values, self.path.steps
        seen, seen_twice = values[0] - values[steps], values[0] - values[2 * steps]
        if seen >= 0.5 * gap:
            return "; run longer, or with step sizes that fall"
        if seen_twice > 1.5 * seen:
            return f"; T = {steps} steps see {max(seen, 0) / gap:.0%} of that: take more, or a larger inner_lr"
        return f"; the inner steps see {max(seen, 0) / gap:.0%} of that: start θ elsewhere"

    def _long_enough(self, name: str) -> Test:
        """Whether ∇q̂ is that of more inner steps: if T of them leave a share p of the error, g keeps only p²."""
        path, f, best = self.path, self.f, self.probes[0].best
        ends = [path.once, path.twice]
        if not self.batches and best.value < path.values[2 * path.steps]:  # a sample has an end for each half
            ends.append(self.looks.g(self.probes[0].point.v, best.x, "v"))
        problem, point = self.looks.problem, self.probes[0].point
        seen = [stationarity(problem, point, f, path.first, end, self.metric) for end in ends]
        if seen[0].f_norm * 0.1 * self.probes[0].size <= TOLERANCE * self._scales.f:  # then ∇f is as good as 0
            return Test(name, None, BIAS, True)
        left = max(each.left for each in seen)
        if left - seen[0].left > BALANCE:
            said = (
                f"T = {path.steps} is too small: with T steps {seen[0].left:.0%} of ‖∇f‖² is not balanced by the "
                f"constraint, with more {left:.0%}"
            )
            return Test(name, left - seen[0].left, BALANCE, False, said)
        error = sub(ends[0].grad.v, ends[-1].grad.v)
        self._bias = seen[0].lam * math.sqrt(float(dot(error, error))) / seen[0].f_norm
        if self._bias > BIAS:
            said = f"T = {path.steps} is too small: the direction is wrong by {self._bias:.0%} of ‖∇f‖"
            return Test(name, self._bias, BIAS, False, said)
        said = f"T = {path.steps} leaves an error of {self._bias:.0%} in the direction"
        return Test(name, self._bias, BIAS, True, said if self._bias > TOLERANCE else "")

    def _fresh(self, name: str) -> Test:
        """Whether other starts find a lower g; at most half of what is left is spent on them."""
        probe, judge = self._pairs()[0]
        v, meter = probe.point.v, self.looks.meter
        before, limit = meter.spent, meter.spent + (meter.allowed - meter.spent) / 2
        value, settled, others = 0.0, 0, [float(self.f.value)]
        for radius in (*PUSHES, *RADII):
            if meter.spent > before and meter.spent + 10 > limit:
                break
            reached = probe.lower(v, probe.fresh(radius), steps=40)
            place = reached.place
            falls = [each.g - each.place(v, place.x).value for each in {probe, judge}]
            fall = mean(falls)
            value = max(value, fall.value / self._scales.g)
            probe.found.append(place)
            endless = self._endless(probe, place)
            if endless is not None:
                return Test(name, value, TOLERANCE, False, endless)
            if fall.holds(TOLERANCE * self._scales.g) is False:
                start = "a small push of θ leads" if radius in PUSHES else "a fresh start leads"
                said = f"{start} to a lower g ({place.value:.4g}, here {probe.g:.4g}): start θ elsewhere"
                return Test(name, value, TOLERANCE, False, said)
            if reached.settled and radius in RADII:
                settled += 1
                if abs(fall.value) <= TOLERANCE * self._scales.g:
                    others.append(float(probe.looks.f(v, place.x, "v").value))
        if not settled:
            said = f"no fresh start has come to an end within {int(limit) - before} evaluations"
            return Test(name, value, TOLERANCE, None, said)
        said = f"no lower g as far as {settled} fresh start{'s' if settled > 1 else ''} can tell"
        if max(others) - min(others) > TOLERANCE * self._scales.f:
            said += f", but f is {min(others):.4g} to {max(others):.4g} over θ with the same g"
        return Test(name, value, TOLERANCE, True, said)

    def _moves(self, name: str) -> Test:
        """Whether v can be moved to where f, with θ solved again, is lower."""
        probe, limit = self.probes[0], TOLERANCE * self._scales.f
        here = [each.worth(each.point.v, [each.best.x, each.point.theta]) for each in self.probes]
        ties = mean([each.f - worth.value for each, worth in zip(self.probes, here, strict=True)])
        if ties.holds(2 * limit) is False:
            lower = float(self.f.value) - ties.value
            said = f"of the θ with the least g, others have a lower f ({lower:.4g}, here {float(self.f.value):.4g})"
            return Test(name, ties.value / self._scales.f, 2 * TOLERANCE, False, said)
        most, tried, grads = -math.inf, 0, [here[0].grad]
        try:
            for direction, radius in self._directions(grads):
                v = probe.moved(direction, radius)
                there = [self._worth(*pair, v) for pair in zip(self.probes, here, strict=True)]
                gain = mean([now.value - then.value for now, then in zip(here, there, strict=True)])
                tried, most = tried + 1, max(most, gain.value)
                holds = gain.holds(limit)
                if holds is None:
                    said = "the noise of the batches hides whether v can be improved: take more"
                    return Test(name, gain.value / self._scales.f, TOLERANCE, None, said)
                if not holds:
                    said = f"a move of v by {radius:.0%} of its size lowers f by {gain.value:.2g}"
                    said += self._advice(direction, here[0])
                    return Test(name, gain.value / self._scales.f, TOLERANCE, False, said)
                if radius == MOVES[-1]:
                    grads.append(there[0].grad)
        except SpentError:
            if tried < len(MOVES):
                raise
        return Test(name, most / self._scales.f, TOLERANCE, True, f"none of {tried} moves of v lowers f")

    def _directions(self, grads: Sequence[Leaves]) -> Iterator[tuple[Leaves, float]]:
        """Where to move v, and how far: down, where gradients near by differ (a kink) down along it, and at random."""
        ways: list[Leaves] = []
        for _ in range(KINKS):
            down = scale(-1.0, shortest(grads))
            if ways and float(dot(down, ways[-1])) > 0.9 * math.sqrt(float(dot(down, down) * dot(ways[-1], ways[-1]))):
                break  # the same again
            ways.append(down)
            yield from ((down, radius) for radius in MOVES)
        any_way = self.probes[0].direction()
        for direction in (any_way, scale(-1.0, any_way)):
            yield from ((direction, radius) for radius in MOVES)

    def _worth(self, probe: Probe, here: Worth, v: Leaves) -> Worth:
        """What another v is worth; before a lower f counts, a lower inner minimum is looked for there."""
        there = probe.worth(v, [here.z.x, here.y])
        if here.value - there.value > TOLERANCE * self._scales.f:
            others = [place.x for place in probe.found] + [probe.fresh(radius) for radius in RADII[:2]]
            there = probe.worth(v, [there.z.x, there.y, *others])
        return there

    def _depends(self, name: str) -> Test | None:
        """Whether g still says anything on θ: that v can switch it off is no failure, but has to be told."""
        if not self.looks.problem.v.given:
            return None
        try:
            share = self.probes[0].loudness
        except SpentError:
            return None
        said = f"v has switched g off: over θ it varies by {share:.1%} of what it does at other v"
        return Test(name, share, None, True, said if share < OFF else "")

    def _advice(self, direction: Leaves, here: Worth) -> str:
        """What to do where v can be moved along a direction."""
        probe = self.probes[0]
        try:
            far, further = (probe.worth(probe.moved(direction, r), [here.z.x]).value for r in (10.0, 100.0))
            if falls_on(here.value, far, further, TOLERANCE * self._scales.f):
                return f", and f falls on to {further:.2g} a hundred times its size away: run longer; {BOUND}"
        except SpentError:
            pass
        if self._bias > BALANCE:
            return f": run longer, or take more inner steps than T = {self.path.steps}"
        return ": run longer"


def _both(one: bool | None, other: bool | None) -> bool | None:
    """Both of two, of which None is not known."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
