"""What `hypergradcheck` finds out about a direction, and how it says so."""

import itertools
from dataclasses import dataclass

from torch import Tensor

FALLS = 0.75
"""The error falls if a doubling leaves less than this share of it."""


@dataclass(frozen=True)
class HypergradReport:
    """What `hypergradcheck` found; `print(report)` says it in words.

    Attributes:
        method: the name of the method.
        truth: how the hypergradient was found: "closed form" or "finite differences".
        where: where the direction was taken.
        eliminated: whether λ was eliminated from the direction, as for `bome` and `pbgd`.
        direction: the method's v-direction, laid end to end (in the tested directions, if v is large).
        hypergradient: the exact one, likewise.
        relative_error: ‖direction − hypergradient‖ / ‖hypergradient‖.
        cosine: of the angle between the two.
        factor: the multiple of the hypergradient nearest to the direction.
        errors: the relative error with the accuracy fields of the method as given, doubled, doubled again, ...
        doubled: the names of those fields, such as "T" and "K".
        rtol: the relative error that counts as none.
        bias: what the method declares about its bias.
        settles: where the method declares to settle.
    """

    method: str
    truth: str
    where: str
    eliminated: bool
    direction: Tensor
    hypergradient: Tensor
    relative_error: float
    cosine: float
    factor: float
    errors: tuple[float, ...]
    doubled: tuple[str, ...]
    rtol: float
    bias: str
    settles: str

    @property
    def exact(self) -> bool:
        """Whether the direction is the hypergradient as it stands."""
        return self.relative_error <= self.rtol

    @property
    def vanishes(self) -> bool:
        """Whether the error goes to 0 as the accuracy fields grow: it reached `rtol`, or kept halving to the end."""
        last = self.errors[-4:]
        halving = len(last) == 4 and all(b <= FALLS * a for a, b in itertools.pairwise(last))
        return min(self.errors) <= self.rtol or halving

    @property
    def ok(self) -> bool:
        """Whether the direction is the hypergradient, up to a bias that goes to 0."""
        return self.exact or self.vanishes

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.exact:
            return "the direction is the hypergradient"
        cause = f"biased by construction ({self.bias})" if self.bias else "wrong, or biased by construction"
        if len(self.errors) < 2:
            return f"the direction is not the hypergradient, and no field would make it more exact: {cause}"
        twice, once = (" and ".join(n + name for name in self.doubled) for n in ("2", ""))
        series = ", ".join(f"{x:.1e}" for x in self.errors[1:])
        if self.vanishes:
            penalty = self.settles == "penalty" and not self.eliminated
            kind = "O(1/λ), as of every penalty" if penalty else f"that of a finite {once}"
            return f"the error falls with {twice}, again and again, to {series}: the bias is {kind}"
        if self.errors[1] <= FALLS * self.errors[0]:
            return f"the error falls with {twice} to {series}, but not further: {cause}"
        return f"the error does not fall with {twice}: {cause}"

    def __str__(self) -> str:
        lines = [
            f"hypergradcheck of {self.method} {self.where}, against {self.truth}",
            f"  relative error  {self.relative_error:.2e}   (tolerance {self.rtol:.0e})",
            f"  cosine          {self.cosine:.9f}",
            f"  factor          {self.factor:.6g}",
            f"  verdict         {self.verdict}",
        ]
        if self.eliminated:
            lines.append("                  for λ → ∞; at a finite λ there is a bias of O(1/λ) besides")
        return "\n".join(lines)
