"""The judge: whether an answer solves a problem of BOLIB.

Solved to t: |f − f*| ≤ t max(1, |f*|),  g − min g ≤ t max(1, |min g|),  and no constraint violated by more than 1e-3.
min g is global, found by brute force at the x of the answer.
"""

from typing import NamedTuple

from torch import Tensor

from bome.tasks.bolib.record import Record
from bome.tasks.bolib.search import inner_minimum

VIOLATION = 1e-3
"""How much a constraint may be violated."""


class Judgement(NamedTuple):
    """How far an answer is from a solution.

    Attributes:
        error: |f − f*| / max(1, |f*|).
        gap: (g − min g) / max(1, |min g|).
        violation: of the constraints, the largest.
    """

    error: float
    gap: float
    violation: float

    def solved(self, tolerance: float = 0.01) -> bool:
        """Whether the answer solves the problem to this tolerance."""
        return self.error <= tolerance and self.gap <= tolerance and self.violation <= VIOLATION


def judge(record: Record, x: Tensor, y: Tensor) -> Judgement:
    """How far (x, y) is from a solution."""
    lowest = inner_minimum(record, x, y).value
    gap = (float(record.g(x, y)) - lowest) / max(1.0, abs(lowest))
    return Judgement(error(record, x, y), gap, record.violation(x, y))


def is_solved(record: Record, x: Tensor, y: Tensor, tolerance: float = 0.01) -> bool:
    """Whether (x, y) solves the problem; brute force is spent only where f is right."""
    return error(record, x, y) <= tolerance and judge(record, x, y).solved(tolerance)


def error(record: Record, x: Tensor, y: Tensor) -> float:
    """|f − f*| / max(1, |f*|)."""
    return abs(float(record.f(x, y)) - record.optimum) / max(1.0, abs(record.optimum))
