"""What was found when θ was trained anew, and what there is to say of it."""

import math
from dataclasses import asdict, dataclass
from typing import Any

FAR = 0.25
"""F is far from f where the difference is this share of what training has gained in f."""
OFF = 0.1
"""‖∇g‖ below this share of what it was is suspicious."""
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, in plain words; empty if nothing is wrong."""
        if not math.isfinite(self.F):
            return ("θ diverges when it is trained on g alone: refit with smaller steps",)
        found = (self._flatters(), self._off(), self._easy(), self._early(), self._moving())
        bounds = tuple(f"{name} lies on its bound with all of its entries" for name in self.on_bounds)
        return (*(text for text in found if text), *bounds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {**asdict(self), "warnings": list(self.warnings)}

    def __str__(self) -> str:
        """In one line and, where there are warnings, one more for each."""
        line = f"F(v) = {self.F:.4g} after {self.steps:,} steps on g alone; f = {self.f:.4g} at the live θ"
        return "\n".join((line, *self.warnings))

    @property
    def _gain(self) -> float:
        """What training has changed in f, or the size of f where the start is the live θ."""
        return max(abs(self.f), abs(self.F)) if self.warm else abs(self.f_start - self.f)

    def _flatters(self) -> str:
        if self.F - self.f <= FAR * self._gain:
            return ""
        return (
            f"f = {self.f:.3g} flatters: a θ trained on g alone has {self.F:.3g}, f has formed the live θ; judge v "
            "by F and train θ anew before you use it, unless f shall choose among the minimisers of g"
        )

    def _off(self) -> str:
        if self.slope_first is None or not self.slope < OFF * self.slope_first or self._learns():
            return ""
        share = self.slope / self.slope_first
        return f"v has switched g off: where θ starts ‖∇g‖ is {share:.1%} of what it was, and θ learns nothing from g"

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
        """Whether θ, trained on g, gets a good part of what the live θ has in f, or of a tenth of f itself."""
        return not self.warm and self.f_start - self.F > FAR * max(self._gain, abs(self.f_start) / 10)
