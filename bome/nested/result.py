"""What `solve` gives back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from bome._typing import Leaves
from bome.loop import Result
from bome.nested.continuation import Run
from bome.nested.losses import Losses
from bome.nested.sensitivity import Ties
from bome.nested.value import Point, Units

SAME = 1e-2
"""The relative difference up to which two ends count as one."""
ENTRIES, SHOWN = 6, 3
"""Of a variable that are printed, and other solutions."""


class Found(NamedTuple):
    """One of the distinct solutions that were found.

    Attributes:
        f: F(v).
        q: how far g(v, θ) is above the least value found.
        v: the tensors of v.
        theta: the tensors of θ*(v).
        runs: how many runs ended there.
    """

    f: float
    q: float
    v: Leaves
    theta: Leaves
    runs: int


@dataclass(frozen=True)
class Solution(Result):
    """The outcome of `solve`: `f` is F(v) = f(v, θ*(v)), and `theta` holds θ*(v), where the verdict says so.

    Attributes:
        found: the distinct solutions, best first.
        runs: how many runs were begun.
        spent: evaluations, by what they were for.
        ties: f over the inner minimisers at v, the best and the worst; None if the budget did not last.
        prices: by how much F(v) changes when the right-hand side of a constraint is relaxed by one, for each kind of
            constraint; negative where relaxing it helps.
    """

    found: Sequence[Found] = ()
    runs: int = 0
    spent: Mapping[str, int] = field(default_factory=dict)
    ties: Ties | None = None
    prices: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        """What a person wants to know first."""
        best, *others = self.found
        solved = self.certificate.verdict.startswith(self.certificate.claim)
        lines = [
            f"{'F(v)' if solved else 'f'} = {self.f:.6g}, {self.certificate.verdict}",
            f"v = {_text(best.v)}",
            f"{'θ*(v)' if solved else 'θ'} = {_text(best.theta)}",
            *(f"price of {name}: {_text([price])}" for name, price in self.prices.items()),
            *(f"another run ended with f = {other.f:.6g} at v = {_text(other.v)}" for other in others[:SHOWN]),
            f"{self.runs} runs, {sum(self.spent.values()):,} evaluations",
        ]
        return "\n".join(lines)


def _text(leaves: Iterable[Tensor]) -> str:
    """The first entries of some tensors."""
    entries = [float(x) for leaf in leaves for x in leaf.detach().reshape(-1)[: ENTRIES + 1]]
    return ", ".join(f"{x:.5g}" for x in entries[:ENTRIES]) + (", …" if len(entries) > ENTRIES else "")


def distinct(
    losses: Losses, points: Sequence[Point], runs: Sequence[Run], units: Units, reach_v: float
) -> tuple[Found, ...]:
    """The best point, and those at which runs ended with θ*(v), best first; those that are alike count as one."""
    groups: list[tuple[Point, int]] = []
    ends = [run.found[-1] for run in runs if run.found]
    for point in points:
        alike = sum(_alike(point, end, units, reach_v) for end in ends)
        solves = alike and _settled(point, units) and point.f >= points[0].f
        if (solves or not groups) and not any(_alike(point, other, units, reach_v) for other, _ in groups):
            groups.append((point, alike))
    unpack = losses.v.leaves, losses.theta.leaves
    return tuple(
        Found(point.f, point.q, unpack[0](point.v), unpack[1](point.theta), number) for point, number in groups
    )


def _settled(point: Point, units: Units) -> bool:
    """Whether θ solves the inner problem."""
    return point.sigma * point.q <= SAME * max(units.f, abs(point.f))


def _alike(a: Point, b: Point, units: Units, reach_v: float) -> bool:
    close = abs(a.f - b.f) <= SAME * max(units.f, abs(a.f))
    near = float((a.v - b.v).abs().max()) <= SAME * reach_v
    return close and near and float((a.theta - b.theta).abs().max()) <= SAME * units.reach
