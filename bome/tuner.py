"""Between steps: picks T and the scale of the v step from what the steps measure.

*Background.* Where θ follows θ*(v), BOME moves v by ξ_v times the hypergradient, whatever λ is. λ rises until the joint
step on (v, θ) starts to turn back at every step, and the larger λ is there, the nearer θ stays to θ*(v). The part that
turns back is shared by v and θ in the ratio ξ_v‖Δδ_v‖² to ξ_θ‖Δδ_θ‖², where Δδ is the change of the direction from one
step to the next. If θ has the larger part, its own step size limits λ and v may go faster; if v has, v limits λ and θ
cannot follow it. So ξ_v is right where the two parts are equal, in whatever units v and θ are measured.

Each step is bounded, and after every window of steps two things are decided.

*The limit.* No step moves v by more than `largest` of 1 + ‖v‖, so that a much too large outer_lr does no harm before
the first decision.

*The scale of v.* A window turns back if the S-weighted products ⟨δ_k, Sδ_{k−1}⟩ of successive directions, S the step
sizes, sum to less than zero.

1. If it turns back, the scale is multiplied by the root of θ's part over v's part.
2. If it does not, and v moved at least `keeps` of what it moved in the window before, v is on its way and could go
   faster: the scale grows.
3. Else v is settling by itself, or moves within rounding: the scale stays.

A decision changes the scale by a factor between 1/b² and b, b = 2^(1/(1 + n)), where n counts how often growing and
shrinking have followed each other: b starts at 2, and the scale settles.

*T.* For an inner loss that falls geometrically the second half of the look-ahead brings the share p/(1 + p) of the
decrease, where p is what T inner steps leave of θ − θ*(v); p is also the relative error that a finite T makes in the
hypergradient. T doubles while this share is above `enough`, unless even `max_steps` would leave p above `reach` (where
g falls at a steady pace, a longer look-ahead costs much and brings little); below 10 inner steps it always doubles
then. It halves where the share is below the square of `enough`: half of T will do.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD

from bome._typing import Leaves
from bome.core.trees import Pair, clone, dot, sub
from bome.errors import ProblemError
from bome.inner import InnerMap
from bome.methods.base import Info
from bome.stepper import Stepper

CHEAP = 10
"""Up to this T, the usual one, a longer look-ahead is always tried."""


@dataclass(frozen=True)
class TunerRules:
    """When a `Tuner` decides what.

    Attributes:
        window: steps between two decisions.
        largest: the largest move of v in one step, relative to 1 + ‖v‖.
        keeps: v counts as being on its way while it moves at least this much of its move in the window before.
        enough: the share of decrease in the second half of the look-ahead above which T doubles.
        reach: T does not grow where `max_steps` inner steps would leave more than this of θ − θ*(v).
        max_steps: the largest T.
        widest: the scale of v stays between its inverse and this.
    """

    window: int = 10
    largest: float = 0.1
    keeps: float = 0.5
    enough: float = 0.01
    reach: float = 0.1
    max_steps: int = 100
    widest: float = 1e8


class Seen(NamedTuple):
    """What a window measured.

    Attributes:
        tail: the mean share of the decrease of g in the second half of the look-ahead.
        agreement: the sum of ⟨δ_k, Sδ_{k−1}⟩; negative if the steps turn back.
        part_v: the sum of ξ_v‖Δδ_v‖².
        part_theta: the sum of ξ_θ‖Δδ_θ‖².
        moved: how far v came in the window.
        rounding: a distance that v moves by rounding alone.
    """

    tail: float
    agreement: float
    part_v: float
    part_theta: float
    moved: float
    rounding: float


@dataclass(frozen=True)
class Scale:
    """The scale of the v step and what its next change depends on.

    Attributes:
        value: the factor on the step size of v.
        reversals: how often growing and shrinking have followed each other.
        trend: +1 if the last change was a growth, −1 if it was not, 0 before the first.
        moved: how far v came in the window before.
    """

    value: float = 1.0
    reversals: int = 0
    trend: int = 0
    moved: float = 0.0

    def after(self, seen: Seen, rules: TunerRules) -> "Scale":
        """The scale after a window."""
        most = 2 ** (1 / (1 + self.reversals))
        factor = min(max(self._wanted(seen, rules, most), most**-2), most)
        trend = (factor > 1) - (factor < 1)
        return Scale(
            min(max(self.value * factor, 1 / rules.widest), rules.widest),
            self.reversals + (trend * self.trend < 0),
            trend or self.trend,
            seen.moved,
        )

    def _wanted(self, seen: Seen, rules: TunerRules, most: float) -> float:
        if seen.agreement < 0 and seen.part_v > 0:
            return math.sqrt(seen.part_theta / seen.part_v)
        on_its_way = seen.moved > seen.rounding and seen.moved >= rules.keeps * self.moved
        return most if seen.agreement >= 0 and on_its_way else 1.0


def steps_after(steps: int, tail: float, rules: TunerRules) -> int:
    """T after a window with that tail (NaN where g never decreased); one step has no second half to judge by."""
    if steps == 1 or (tail > rules.enough and _can_reach(steps, tail, rules)):
        return max(steps, min(2 * steps, rules.max_steps))
    return steps // 2 if tail < rules.enough**2 and steps > 3 else steps


def _can_reach(steps: int, tail: float, rules: TunerRules) -> bool:
    """Whether a longer look-ahead is worth its cost: p = tail / (1 − tail) after T steps is p^(T'/T) after T'."""
    if steps < CHEAP:
        return True
    return tail < 0.5 and (tail / (1 - tail)) ** (rules.max_steps / steps) <= rules.reach


class Tuner:
    """Automatic T and v scale for methods with an inner map and SGD optimisers. `picked()` tells what it chose.

    It keeps the last direction (as large as v and θ together) and one copy of v.
    """

    def __init__(self, rules: TunerRules | None = None) -> None:
        self.rules = rules if rules is not None else TunerRules()
        self._scale, self._steps = Scale(), 0
        self._last = Pair((), ())  # the last direction
        self._origin: Leaves = ()  # v at the start of the window
        self._seen: list[Tensor] = []  # per step of this window: tail, agreement, parts of v and of θ

    def picked(self) -> dict[str, float]:
        """What was picked: T and the factor on the step size of v."""
        return {"inner_steps": self._steps, "outer_scale": self._scale.value}

    def attach(self, stepper: Stepper) -> None:
        """Start on a stepper, or continue on it after `load_state_dict`."""
        if not stepper.problem.v.given:
            raise ProblemError("a tuner scales the step of v, and the problem has no v: run it without a tuner")
        inner = getattr(stepper.method, "inner", None)
        if not isinstance(inner, InnerMap):
            raise ProblemError(f"{stepper.method.name} has no inner map whose T could be tuned: run it without a tuner")
        if not stepper.method.tunable:
            raise ProblemError(f"{stepper.method.name} does not measure q̂ as a tuner needs it: take bome, or no tuner")
        for name, optimiser in (("outer_opt", stepper.outer_opt), ("inner_opt", stepper.inner_opt)):
            if not isinstance(optimiser, SGD):
                raise ProblemError(
                    f"a tuner compares the step sizes of v and θ, which {type(optimiser).__name__} rescales: "
                    f"make {name} a torch.optim.SGD, or run without a tuner"
                )
        self._steps = self._steps or inner.steps
        v = stepper.problem.point.v
        self._last = Pair(_beside(self._last.v, v), _beside(self._last.theta, stepper.problem.point.theta))
        self._origin = _beside(self._origin, v) or clone(v)
        self._seen = [x.to(v[0].device) for x in self._seen]
        stepper.v_limit, stepper.keep_direction = self.rules.largest, True
        self._set(stepper)

    def after(self, stepper: Stepper, info: Info) -> None:
        """Look at a step just done; at the end of a window, decide."""
        if info.tail is None or stepper.direction is None:
            raise ProblemError(f"{stepper.method.name} did not measure q̂: run it without a tuner")
        self._seen.append(torch.stack([info.tail.double(), *self._compare(stepper, stepper.direction)]))
        self._last = stepper.direction
        if len(self._seen) == self.rules.window:
            seen = self._window(stepper.problem.point.v)
            self._scale = self._scale.after(seen, self.rules)
            self._steps = steps_after(self._steps, seen.tail, self.rules)
            self._seen.clear()
            self._set(stepper)

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs."""
        scale = self._scale
        return {
            "scale": [scale.value, scale.reversals, scale.trend, scale.moved], "steps": self._steps,
            "last_v": list(self._last.v), "last_theta": list(self._last.theta),
            "origin": list(self._origin), "seen": list(self._seen),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self._scale, self._steps = Scale(*state["scale"]), state["steps"]
        self._last = Pair(tuple(state["last_v"]), tuple(state["last_theta"]))
        self._origin, self._seen = tuple(state["origin"]), list(state["seen"])

    def _compare(self, stepper: Stepper, now: Pair) -> tuple[Tensor, Tensor, Tensor]:
        """Agreement of this direction with the last one, and the parts of v and θ in their difference."""
        last, metric = self._last, stepper.metric
        if [x.shape for x in last.v] != [x.shape for x in now.v]:  # the first step, or a batch of another size
            none = torch.zeros((), dtype=torch.float64, device=now.theta[0].device)
            return none, none, none
        agreement = _weighted(metric.v, now.v, last.v) + _weighted(metric.theta, now.theta, last.theta)
        change_v, change_theta = sub(now.v, last.v), sub(now.theta, last.theta)
        return agreement, _weighted(metric.v, change_v, change_v), _weighted(metric.theta, change_theta, change_theta)

    def _window(self, v: Leaves) -> Seen:
        """Sum up the window and start the next one; the only place that waits for the device."""
        rows, move = torch.stack(self._seen), sub(v, self._origin)
        rounding = 100 * torch.finfo(v[0].dtype).eps * (1 + dot(v, v).sqrt())
        self._origin = clone(v)
        numbers = torch.stack([rows[:, 0].nanmean(), *rows[:, 1:].sum(0), dot(move, move).sqrt(), rounding])
        return Seen(*numbers.tolist())

    def _set(self, stepper: Stepper) -> None:
        method: Any = stepper.method
        inner = method.inner.with_steps(self._steps)
        self._steps = inner.steps  # a Solver has no T
        stepper.method = replace(method, inner=inner)
        stepper.v_scale = self._scale.value


def _weighted(rates: tuple[float, ...], a: Leaves, b: Leaves) -> Tensor:
    """⟨a, Sb⟩ with the step size of each leaf."""
    return torch.stack([rate * dot((x,), (y,)) for rate, x, y in zip(rates, a, b, strict=True)]).sum()


def _beside(leaves: Leaves, live: Leaves) -> Leaves:
    """Restored leaves on the device of the live ones."""
    return tuple(x.to(y.device) for x, y in zip(leaves, live, strict=True)) if leaves else ()
