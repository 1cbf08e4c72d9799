r"""How curved g is along its own gradient, and the step size α that follows.

    d = ∇_θ g(v, θ; ζ),   e = 0.01 ‖θ‖ / ‖d‖                                   the same batch ζ for both gradients
    L ← max(0.99 L, ‖∇_θ g(v, θ + e d; ζ) − d‖ / ‖e d‖)
    α = 1.5 / L

Gradient descent is stable up to 2 / L. The largest curvature counts: an average lets α grow until θ jumps about.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bome._typing import Leaves
from bome.core.trees import axpy, dot, sub
from bome.inner import GradientDescent, Look, StepMap

OVER = 1.5
"""α L; beyond 2 descent is not stable."""
REACH = 0.01
"""How far the second gradient is from the first, relative to θ."""
FADE = 0.99
"""What an earlier curvature still counts at the next look."""
FIRST, EVERY = 5, 20
"""Looks are made in each of the first steps, and then now and then."""


@dataclass
class Curvature:
    """The curvature seen so far.

    Attributes:
        L: the largest one, earlier ones fading.
        least: a curvature that counts in any case, so that α never exceeds `OVER / least`.
        fixed: α, where a person has fixed it; nothing is looked at then.
    """

    L: float = 0.0
    least: float = 0.0
    fixed: float | None = None

    @property
    def alpha(self) -> float:
        """The step size."""
        return self.fixed if self.fixed is not None else OVER / max(self.L, self.least, 1e-12)

    def see(self, theta: Leaves, d: Leaves, after: Callable[[Leaves], Leaves]) -> None:
        """Look once more.

        Args:
            theta: where g was looked at.
            d: ∇_θ g there.
            after: ∇_θ g at another point, on the same batch.
        """
        slope, e = norm(d), reach_of(theta, d)
        if e > 0:
            change = norm(sub(after(axpy(e, d, theta)), d)) / (e * slope)
            self.L = max(FADE * self.L, change) if math.isfinite(change) else self.L


def reach_of(theta: Leaves, d: Leaves) -> float:
    """e; where θ is 0 its entries count as 0.01. Where d is 0 or not finite there is nothing to see."""
    slope, entries = norm(d), sum(x.numel() for x in theta)
    size = max(norm(theta), REACH * math.sqrt(entries))
    return REACH * size / slope if 0 < slope < math.inf else 0.0


def norm(leaves: Leaves) -> float:
    """‖·‖ as a number: it waits for the device."""
    return math.sqrt(float(dot(leaves, leaves)))


@dataclass(frozen=True)
class CurvedDescent(StepMap):
    """Gradient descent whose α follows the curvature.

    Attributes:
        steps: T.
        curvature: what was seen; each descent begins anew.
        watch: called before each step; it may raise, to end the descent.
    """

    steps: int
    curvature: Curvature = field(default_factory=Curvature)
    watch: Callable[[], None] = lambda: None

    def with_steps(self, steps: int) -> "CurvedDescent":
        """The same map with another T."""
        return replace(self, steps=steps)

    def start(self, theta: Leaves) -> int:
        """Steps done."""
        self.curvature.L = 0.0
        return 0

    def step_(self, theta: Leaves, look: Look, buffers: int) -> int:
        """One step, with a second look where the curvature is due."""
        self.watch()
        _, d = look()
        if self.curvature.fixed is None and (buffers < FIRST or buffers % EVERY == 0):
            self.curvature.see(theta, d, lambda there: self._visited(theta, there, look))
        GradientDescent(self.curvature.alpha, 1).advance_(theta, d, tuple(() for _ in theta))
        return buffers + 1

    @staticmethod
    def _visited(theta: Leaves, there: Leaves, look: Look) -> Leaves:
        """∇_θ g at another point; θ itself is lent for the look, and put back."""
        here = tuple(x.clone() for x in theta)
        for x, y in zip(theta, there, strict=True):
            x.copy_(y)
        _, grad = look()
        for x, y in zip(theta, here, strict=True):
            x.copy_(y)
        return grad
