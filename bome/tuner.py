"""Between steps: picks T and the scale of the v step from what the steps measure.

Two questions are asked after every window of steps.

*Is T enough?* The second half of a look-ahead should bring little. If it brings more than `tail_high` of the decrease
of g, T is doubled; if less than `tail_low`, T is halved.

*Is the v step right?* While v keeps moving the same way and q̂ does not grow, the step of v is too short and grows by
half; when successive moves oppose each other, or q̂ grows, θ cannot follow and the step is halved. A step may not move v
by more than `largest` of its own size.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.errors import ProblemError
from bome.inner import InnerMap
from bome.methods.base import Info
from bome.stepper import Stepper
from bome.trees import dot


@dataclass(frozen=True)
class TunerRules:
    """When a `Tuner` decides what.

    Attributes:
        window: steps between two decisions.
        tail_high: T doubles above this share of decrease in the second half of the look-ahead.
        tail_low: T halves below it.
        largest: the largest move of v in one step, relative to 1 + ‖v‖.
        max_steps: the largest T.
    """

    window: int = 10
    tail_high: float = 0.25
    tail_low: float = 0.05
    largest: float = 0.1
    max_steps: int = 100


class Tuner:
    """Automatic T and v scale for methods with an inner map. `picked()` tells what it chose."""

    def __init__(self, rules: TunerRules | None = None) -> None:
        self.rules = rules if rules is not None else TunerRules()
        self._scale, self._steps = 1.0, 0
        self._mean_q = 0.0  # of the last window; 0 where it cannot be compared with
        self._move: Leaves = ()  # the last δ_v
        self._seen: list[Tensor] = []  # per step of this window: tail, q̂, agreement of two moves, size of the move

    def picked(self) -> dict[str, float]:
        """What was picked: T and the factor on the step size of v."""
        return {"inner_steps": self._steps, "outer_scale": self._scale}

    def attach(self, stepper: Stepper) -> None:
        """Start on a stepper, or continue on it after `load_state_dict`."""
        inner = getattr(stepper.method, "inner", None)
        if not isinstance(inner, InnerMap):
            raise ProblemError(f"{stepper.method.name} has no inner map whose T could be tuned: run it without a tuner")
        self._steps = self._steps or inner.steps
        self._set(stepper)

    def after(self, stepper: Stepper, info: Info) -> None:
        """Look at a step just done; at the end of a window, decide."""
        if info.tail is None or info.q is None:
            raise ProblemError(f"{stepper.method.name} does not measure q̂: run it without a tuner")
        move, v = stepper.move_v, stepper.problem.point.v
        length = dot(move, move).sqrt()
        agreement = torch.zeros_like(length)
        if self._move and all(a.shape == b.shape for a, b in zip(self._move, move, strict=True)):
            agreement = dot(move, self._move) / (length * dot(self._move, self._move).sqrt())
        size = max(stepper.metric.v) * length / (1 + dot(v, v).sqrt())
        self._move = move
        self._seen.append(torch.stack([info.tail.double(), info.q.double(), agreement, size]))
        if len(self._seen) == self.rules.window:
            self._decide(*torch.stack(self._seen).nanmean(0).tolist())
            self._seen.clear()
            self._set(stepper)

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs."""
        return {
            "scale": self._scale, "steps": self._steps, "mean_q": self._mean_q,
            "move": list(self._move), "seen": list(self._seen),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self._scale, self._steps, self._mean_q = state["scale"], state["steps"], state["mean_q"]
        self._move, self._seen = tuple(state["move"]), list(state["seen"])

    def _decide(self, tail: float, q: float, agreement: float, size: float) -> None:
        rules, steps = self.rules, self._steps
        if tail > rules.tail_high or steps == 1:  # one step has no second half to judge by
            self._steps = min(2 * steps, rules.max_steps)
        elif tail < rules.tail_low and steps > 2:
            self._steps = steps // 2
        grows = self._mean_q > 0 and q > 2 * self._mean_q
        self._mean_q = q if self._steps == steps else 0.0  # q̂ of another T is another quantity
        if agreement < 0 or grows:
            self._scale *= 0.5
        elif agreement > 0.5:
            self._scale *= 1.5
        if size > rules.largest:
            self._scale *= rules.largest / size

    def _set(self, stepper: Stepper) -> None:
        method: Any = stepper.method
        stepper.method = replace(method, inner=method.inner.with_steps(self._steps))
        stepper.v_scale = self._scale
