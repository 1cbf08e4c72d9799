"""Constraints on (v, θ): functions that give vectors, of which the inner ones bind θ in the inner problem."""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import check_arguments
from bome.errors import ProblemError

Constraint = Callable[[Any, Any, Any], Any]
"""`(v, theta, batch) -> vector`; a number, a tensor of any shape or a list of them is as good."""

Level = Literal["inner", "both"]
"""Those of the inner problem only, or all of them."""


class Sizes(NamedTuple):
    """How many entries each kind has; in a vector of all of them they stand in this order."""

    inner_constraints: int
    inner_equalities: int
    outer_constraints: int
    outer_equalities: int

    @property
    def inner(self) -> int:
        """How many belong to the inner problem: the first of the vector."""
        return self.inner_constraints + self.inner_equalities

    @property
    def equalities(self) -> tuple[bool, ...]:
        """For each entry of the vector, whether it must be 0; the others must not be positive."""
        return tuple(flag for size, flag in zip(self, (False, True, False, True), strict=True) for _ in range(size))


@dataclass(frozen=True)
class Constraints:
    """h ≤ 0 and equalities in the inner problem, H ≤ 0 and equalities in the outer one; None where there are none."""

    inner_constraints: Constraint | None = None
    inner_equalities: Constraint | None = None
    outer_constraints: Constraint | None = None
    outer_equalities: Constraint | None = None

    def __post_init__(self) -> None:
        for name, function in self._named():
            if function is not None:
                check_arguments(name, function, "vector")

    def __bool__(self) -> bool:
        """Whether there are any."""
        return any(function is not None for function in astuple(self))

    def parts(self, level: Level, v: Any, theta: Any, inner: Any, outer: Any, empty: Tensor) -> tuple[Tensor, ...]:
        """The vector of each kind; `empty` where there is none.

        Args:
            level: of which problems.
            v: v as the functions see it.
            theta: θ as they see it.
            inner: the batch of those of the inner problem.
            outer: the batch of those of the outer one.
            empty: a vector without entries.
        """
        return tuple(
            empty
            if function is None or (level == "inner" and name.startswith("outer"))
            else _vector(name, function(v, theta, inner if name.startswith("inner") else outer), empty)
            for name, function in self._named()
        )

    def _named(self) -> Iterator[tuple[str, Constraint | None]]:
        yield from zip(Sizes._fields, astuple(self), strict=True)


def _vector(name: str, value: Any, empty: Tensor) -> Tensor:
    """The entries of a tensor, or of a list of them, in a row."""
    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    for part in parts:
        if not isinstance(part, Tensor):
            raise ProblemError(f"{name} must return a tensor or a list of them, got {type(part).__name__}")
        if not part.is_floating_point():
            raise ProblemError(f"{name} must return real numbers, got {part.dtype}: they have no gradient")
    return torch.cat([part.reshape(-1) for part in parts]) if parts else empty
