"""What was found when θ was trained anew, and what there is to say of it."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

FAR = 0.25
"""F is far from f where the difference is this share of what training has gained in f."""
OFF = 0.1
"""‖∇g‖, or the decrease of g in training, below this share of what it was is suspicious."""
WORTH = 0.01
"""v has gained something where F is lower than before by this share of what training gains."""
MOVING = 0.2
"""θ is still on its way where the second half of the steps brought this share of the decrease of g."""


@dataclass(frozen=True)
class Refit:
    """F(v), and how it was found.

    Attributes:
        F: f after θ was trained on g(v, ·) alone.
        f: f at the live θ, on the same batches.
        f_start: f where θ started; equal to f where it started from the live θ.
        g_start: the mean of g over the first tenth of the steps.
        g: the mean of g over the last tenth of them.
        late: the share of the decrease of g that the second half of the steps brought.
        slope: ‖∇_θ g‖ where θ started.
        slope_first: ‖∇_θ g‖ there with the first v; None where that is not known.
        flat: ‖∇_θ g‖ with this v as a share of that with the first one: where θ started or where the live θ would be on
            the other side of the start, whichever is larger; None where that is not known.
        F_first: F of the first v; None where it was not measured.
        fall_first: the decrease of g with the first v.
        steps: how many steps θ got.
        warm: whether it started from the live θ.
        on_bounds: tensors of v that lie on one bound, or in one corner of the simplex, with all of their entries.
        evaluations: what it has cost, by kind; not among the evaluations of the run.
        f_early: f after a fifth of the steps; None where there were no such steps.
    """

    F: float
    f: float
    f_start: float
    g_start: float
    g: float
    late: float
    slope: float
    slope_first: float | None
    steps: int
    warm: bool
    on_bounds: tuple[str, ...]
    evaluations: dict[str, int]
    f_early: float | None = None
    flat: float | None = None
    F_first: float | None = None
    fall_first: float | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, in plain words; empty if nothing is wrong."""
        if not math.isfinite(self.F):
            return ("θ diverges when it is trained on g alone: refit with smaller steps",)
        found = (self._flatters(), self._idle(), self._off(), self._easy(), self._early(), self._moving())
        bounds = tuple(f"{name} lies on its bound with all of its entries" for name in self.on_bounds)
        return (*(text for text in found if text), *bounds)

    def beside(self, first: "Refit") -> "Refit":
        """The same with what was found for the first v, and both costs."""
        cost = {
            kind: n + (0 if first is self else first.evaluations.get(kind, 0)) for kind, n in self.evaluations.items()
        }
        return replace(self, F_first=first.F, fall_first=first.g_start - first.g, evaluations=cost)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {**asdict(self), "warnings": list(self.warnings)}

    def __str__(self) -> str:
        """In one line and, where there are warnings, one more for each."""
        first = "" if self.F_first is None else f", {self.F_first:.4g} with the first v"
        line = f"F(v) = {self.F:.4g} after {self.steps:,} steps on g alone{first}; f = {self.f:.4g} at the live θ"
        return "\n".join((line, *self.warnings))

    @property
    def _gain(self) -> float:
        """What training has changed in f, or the size of f where the start is the live θ."""
        return max(abs(self.f), abs(self.F)) if self.warm else abs(self.f_start - self.f)

    def _flatters(self) -> str:
        if self.F - self.f <= FAR * self._gain:
            return ""
        return (
            f"f = {self.f:.3g} flatters: a θ trained on g alone has {self.F:.3g}; judge v by F and train "
            "θ anew before you use it, unless f shall choose among the minimisers of g"
        )

    def _idle(self) -> str:
        if self.F_first is None or self.F_first - self.F > WORTH * abs(self.f_start - self.F_first):
            return ""
        return f"v is worth no more than the first one, whose F is {self.F_first:.3g}"

    def _off(self) -> str:
        if self.warm or self._learns():
            return ""
        if self.flat is not None and self.flat < OFF:
            return f"v has switched g off: ‖∇g‖ is {self.flat:.1%} of what it was, and θ learns nothing from g"
        low = self.flat is None or self.flat < 0.5  # else θ only starts where g is lowest
        if self.fall_first is not None and low and self.g_start - self.g < OFF * self.fall_first:
            share = max(self.g_start - self.g, 0.0) / self.fall_first
            return f"v has switched g off: it falls {share:.1%} as far as it did, and θ learns nothing from g"
        return ""

    def _easy(self) -> str:
        if self.warm or not 0 <= self.g < 0.02 * self.g_start or self.f_start >= self.F:
            return ""
        return (
            f"v has made g easy: θ brings it to {self.g:.1e}, and f grows from {self.f_start:.3g} to {self.F:.3g} "
            "on the way"
        )

    def _early(self) -> str:
        if self.f_early is None or self.warm or self._easy():
            return ""
        if not self.F - self.f_early > FAR * abs(self.f_start - self.f_early):
            return ""
        return (
            f"v suits a θ that stops early: f is {self.f_early:.3g} after {self.steps // 5:,} steps and {self.F:.3g} "
            f"after {self.steps:,}"
        )

    def _moving(self) -> str:
        if not self.late > MOVING:
            return ""
        return f"θ was still on its way: the second half of the steps brought {self.late:.0%} of the decrease of g"

    def _learns(self) -> bool:
        """Whether θ, trained on g, gets nearly what it got with the first v, or a good part of what the live θ has."""
        if self.F_first is not None:
            return self.f_start - self.F > FAR * (self.f_start - self.F_first)
        return self.f_start - self.F > FAR * max(self._gain, abs(self.f_start) / 10)
