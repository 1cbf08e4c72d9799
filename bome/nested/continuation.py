"""One run: the penalised value function descended from one start, for a growing penalty.

    for L = 1, ..., 6
        1:  ψ_σ at v, with descents of g from 8 scattered points, if these are new
        2:  at most 25 steps of SPG on v, until 3 of them bring less than 10⁻⁵
        3:  8 new points: if ψ rises by more than 10⁻⁴, a lower inner minimum was found: redo from 2, at most twice,
            from the beginning of the level if ψ is lower there
        4:  stop where σ q ≤ 10⁻⁴, on the first level only if v is stationary;   σ = 10 σ
    5:  stop where a run of the rounds before was at the end of a level with this σ: it would end as that did

ψ and q are counted in sizes of f. A run is a value: `advance` evaluates ψ once and gives the run that results, so that
it can be saved between any two of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bome.nested.descent import Descent, Heading, Place, Region, Rules, begin, dot
from bome.nested.losses import Meter
from bome.nested.rows import Kept
from bome.nested.sets import Sets
from bome.nested.survey import Dice, Extent
from bome.nested.value import Memory, Point, Start, ValueFunction

LEVELS, GROWTH = 6, 10.0
"""How often σ grows at the most, and how much."""
STEPS, GAIN = 25, 1e-5
"""Of v at a level; what 3 of them must bring."""
REDOS, RISE = 2, 1e-4
"""Of a level at the most; the rise of ψ that asks for one."""
ENOUGH = 1e-4
"""σ q where a run ends."""
SAME = 1e-4
"""The difference up to which two points of runs are the same, in reaches of v and θ and in sizes of f."""
FLAT = 1e-5
"""Of a descent of v: ‖d‖∞ / s where it counts as stationary, in slopes at the start."""


@dataclass(frozen=True)
class Run:
    """Where a run is.

    Attributes:
        number: which of the runs of a search it is.
        v: where its level starts.
        theta: a θ that is feasible there.
        sigma: σ.
        level: how often σ has grown.
        redos: how often the level was done again.
        memory: what ψ remembers.
        descent: of v; None at the beginning of a level.
        s: the step size to begin with; 0 where none is known.
        draws: how often random points were drawn.
        untried: whether ψ was not yet asked with the last of them.
        found: the best point of each level done.
        best: the best point of this level so far.
        before: ψ before a level is done again.
        origin: where the level began, and ψ there.
        settled: whether the last descent ended at a stationary point.
        kept: rows of the Jacobian of the constraints.
        psi: how often ψ was evaluated.
        ended: why the run ended; None while it goes on.
    """

    number: int
    v: Tensor
    theta: Tensor
    sigma: float
    level: int = 0
    redos: int = 0
    memory: Memory = field(default_factory=Memory)
    descent: Descent | None = None
    s: float = 0.0
    draws: int = 0
    untried: bool = True
    found: tuple[Point, ...] = ()
    best: Point | None = None
    before: float = math.inf
    origin: tuple[Point, float] | None = None
    settled: bool = False
    kept: Kept | None = None
    psi: int = 0
    ended: str | None = None


@dataclass(frozen=True)
class Outside:
    """Where v may go: what is known at a place is its `Point`."""

    sets: Sets
    meter: Meter

    def heading(self, place: Place, s: float) -> Heading:
        """From v to the shadow of v − s ∇ψ."""
        with self.meter.on("shadow"):
            shadow = self.sets.shadow(place.x - s * place.grad, place.known.theta)
        d = shadow.v - place.x
        return Heading(shadow.v, d, dot(place.grad, d), known=shadow.theta)

    def change(self, heading: Heading, old: Place, new: Place) -> Tensor:
        """Δ∇ψ."""
        return new.grad - old.grad


@dataclass(frozen=True)
class Continuation:
    """How runs go on.

    Attributes:
        value: ψ.
        seed: of random points.
        theta: where they lie.
        reach_v: how far v may go.
    """

    value: ValueFunction
    seed: int
    theta: Extent
    reach_v: float

    @property
    def region(self) -> Region:
        """Where v may go."""
        return Outside(self.value.sets, self.value.losses.meter)

    def started(self, number: int, v: Tensor, theta: Tensor, sigma: float, kept: Kept | None) -> Run:
        """A run at its beginning."""
        start = (Start(theta),)
        return self._scattered(Run(number, v, theta, sigma, memory=Memory(start, start), kept=kept))

    def advance(self, run: Run, others: Sequence[Run] = ()) -> Run:
        """Evaluate ψ once, and draw the conclusions; a run that comes to where one of the others was ends as that."""
        if run.kept is not None:
            self.value.losses.kept = run.kept
        after = self._begun(run) if run.descent is None else self._stepped(run, run.descent)
        if len(after.found) > len(run.found) and after.ended is None:
            after = self._joined(after, others)
        return replace(after, kept=self.value.losses.kept if run.kept is not None else None, psi=run.psi + 1)

    def _begun(self, run: Run) -> Run:
        """Lines 1 and 3: ψ with new scattered points."""
        starts = run.memory.scatter if run.untried else ()
        found = self.value.at(run.v, run.theta, run.sigma, run.memory, starts)
        if not math.isfinite(found.place.value):
            return replace(run, ended="no θ is feasible")
        run = replace(run, memory=found.memory, untried=False)
        if run.redos and found.place.value <= run.before + RISE * max(self.value.units.f, abs(run.before)):
            return self._closed(run)
        if run.redos and run.origin is not None and run.origin[1] < found.place.value:
            back = run.origin[0]
            return replace(run, v=back.v, theta=back.theta, before=-math.inf, origin=None)
        steep = float(found.place.grad.abs().max())
        s = run.s or (self.reach_v / 3 / steep if steep > 0 else 1.0)
        descent = begin(found.place, self.region, self._rules(found.place.value), s, self.reach_v / 3)
        origin = run.origin if run.redos else (found.place.known, found.place.value)
        return self._concluded(replace(run, best=found.place.known, origin=origin), descent)

    def _stepped(self, run: Run, descent: Descent) -> Run:
        """Line 2: ψ where the descent wants to look."""
        hint = descent.place.known.theta
        hint = hint + descent.t * (descent.heading.known - hint)
        found = self.value.at(descent.trial, hint, run.sigma, run.memory)
        descent = descent.told(found.place, self.region, self._rules(descent.place.value))
        return self._concluded(replace(run, memory=found.memory, best=descent.best[0].known), descent)

    def _concluded(self, run: Run, descent: Descent) -> Run:
        """A run after a look: when its descent has ended it asks new scattered points, or closes the level."""
        if descent.ended is None:
            return replace(run, descent=descent)
        best = descent.best[0]
        settled = descent.ended in ("stationary", "flat") and torch.equal(best.x, descent.place.x)
        run = replace(
            run, v=best.x, theta=best.known.theta, before=best.value, settled=settled, descent=None, s=descent.s
        )
        run = self._scattered(run)
        if run.redos < REDOS:
            return replace(run, redos=run.redos + 1)
        return self._closed(run)

    def _closed(self, run: Run) -> Run:
        """Line 4."""
        assert run.best is not None  # noqa: S101 - a level has one
        run = replace(run, found=(*run.found, run.best), best=None)
        size = max(self.value.units.f, abs(run.found[-1].f))
        if run.sigma * run.found[-1].q <= ENOUGH * size and (run.level > 0 or run.settled):
            return replace(run, ended="θ solves the inner problem")
        if run.level + 1 == LEVELS:
            return replace(run, ended="σ has grown as often as it may")
        return replace(run, level=run.level + 1, sigma=GROWTH * run.sigma, redos=0, before=math.inf, origin=None)

    def _joined(self, run: Run, others: Sequence[Run]) -> Run:
        """Line 5: the end of another run, if that had the same point at the end of a level with the same σ."""
        here = run.found[-1]
        for other in others:
            if any(self._same(here, point) for point in other.found):
                return replace(run, found=(*run.found, other.found[-1]), ended=f"as run {other.number}")
        return run

    def _same(self, one: Point, other: Point) -> bool:
        if one.sigma != other.sigma or abs(one.f - other.f) > SAME * max(self.value.units.f, abs(one.f)):
            return False
        near = float((one.v - other.v).abs().max()) <= SAME * self.reach_v
        return near and float((one.theta - other.theta).abs().max()) <= SAME * self.value.units.reach

    def _scattered(self, run: Run) -> Run:
        """New random θ; they are not projected, as the first step inside does that."""
        dice = Dice(self.seed, 1, run.number, run.draws)
        scatter = tuple(map(self.value.sets.drawn, self.theta.scattered(dice)))
        return replace(run, memory=replace(run.memory, scatter=scatter), draws=run.draws + 1, untried=True)

    def _rules(self, value: float) -> Rules:
        size = max(self.value.units.f, abs(value)) if math.isfinite(value) else self.value.units.f
        return Rules(STEPS, FLAT * self.value.units.f / self.reach_v, GAIN * size)


def points(run: Run) -> tuple[Point, ...]:
    """What a run has found, where it stands."""
    return run.found if run.best is None else (*run.found, run.best)
