"""Records: what is known of a problem of BOLIB, its losses, sets and constraints, and its solution.

min f(x, y) over (x, y)  subject to  H(x, y) ≤ 0,  x ∈ X  and  y ∈ argmin { g(x, y) : h(x, y) ≤ 0, y ∈ Y }

The variables have the letters of the library, x for v and y for θ; f, g, h and H are those of `bome.Problem`. All
formulas also take many points at once: a first dimension for the entries, others for the points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from bome.projections import Box, Polyhedron, Rows

Formula: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Formulas: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
Numbers: TypeAlias = tuple[float, ...]
Kind: TypeAlias = Literal["free", "box", "polyhedron", "simple", "linear", "quadratic", "nonlinear"]


@dataclass(frozen=True)
class Record:
    """A problem of BOLIB.

    Attributes:
        name: in the library: authors, year, and the number of the example.
        source: the paper it is from.
        kind: what is special: no constraints ("free"), a "box" or a "polyhedron" that y lives in, no x ("simple"), or,
            where constraints couple x and y, whether all is "linear", "quadratic" or "nonlinear".
        f: the outer loss.
        g: the inner loss.
        start: x and y of the library.
        optimum: f*, as checked.
        solution: x and y of a solution.
        status: whether the library calls its f* "optimal" or the "best known"; "unknown" where it has none.
        x_set: X.
        y_set: Y.
        H: the outer constraints.
        h: the inner constraints.
        correction: what the library prints instead, and why that is not so.
    """

    name: str
    source: str
    kind: Kind
    f: Formula
    g: Formula
    start: tuple[Numbers, Numbers]
    optimum: float
    solution: tuple[Numbers, Numbers]
    status: Literal["optimal", "best known", "unknown"] = "optimal"
    x_set: Box | Polyhedron | None = None
    y_set: Box | Polyhedron | None = None
    H: Formulas | None = None
    h: Formulas | None = None
    correction: str = ""

    @property
    def constrained(self) -> bool:
        """Whether there are constraints beside sets."""
        return self.H is not None or self.h is not None

    @property
    def group(self) -> str:
        """Of which kind a table counts it."""
        return "constrained" if self.constrained else "box" if self.kind == "simple" else self.kind

    def outer_excess(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """How far each outer constraint, X too, is violated; at most 0 where it holds."""
        return (*_beyond(self.x_set, x), *(() if self.H is None else self.H(x, y)))

    def inner_excess(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """How far each inner constraint, Y too, is violated; at most 0 where it holds."""
        return (*_beyond(self.y_set, y), *(() if self.h is None else self.h(x, y)))

    def violation(self, x: Tensor, y: Tensor) -> float:
        """The largest violation of a constraint; 0 at a feasible point."""
        return max([0.0, *(float(c) for c in (*self.outer_excess(x, y), *self.inner_excess(x, y)))])


def _beyond(of: Box | Polyhedron | None, z: Tensor) -> tuple[Tensor, ...]:
    """How far z is beyond each side of a set."""
    if of is None:
        return ()
    sides, flat = _sides(of, len(z)), z.reshape(len(z), -1)
    over, off = sides.A @ flat - sides.b[:, None], sides.E @ flat - sides.e[:, None]
    return tuple(row.reshape(z.shape[1:]) for row in torch.cat([over, off, -off]))


@cache
def _sides(of: Box | Polyhedron, n: int) -> Rows:
    return of.rows(torch.zeros(n, dtype=torch.float64))


def at_least(low: float, z: Tensor) -> tuple[Tensor, ...]:
    """The constraints z ≥ low, entry by entry."""
    return tuple(low - entry for entry in z)


def at_most(high: float, z: Tensor) -> tuple[Tensor, ...]:
    """The constraints z ≤ high, entry by entry."""
    return tuple(entry - high for entry in z)


def point(numbers: Numbers) -> Tensor:
    """A vector in float64."""
    return torch.tensor(numbers, dtype=torch.float64)
