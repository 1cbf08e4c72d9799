"""f, g and the constraints at points given as vectors; each evaluation is charged to what it is for."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome._typing import Array
from bome.nested.vectors import Vector
from bome.oracles import Oracle
from bome.problem import Batches, Problem

BATCHES = Batches()
"""The whole data, which the losses hold themselves."""


class Spent(Exception):  # noqa: N818 - no error: the budget is spent, or somebody asked to stop
    """No further evaluation is allowed."""


class Meter:
    """Counts evaluations by what they are for.

    Attributes:
        limit: the most of them.
        spent: how many there were, for each purpose.
        over: whether to stop before the next one for another reason.
    """

    def __init__(self, limit: float = math.inf, over: Callable[[], bool] = lambda: False) -> None:
        self.limit, self.over = limit, over
        self.spent: Counter[str] = Counter()
        self._purpose = "search"

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.spent.values())

    def charge(self, evaluations: int) -> None:
        """Allow so many more, or say that they are too many."""
        if self.total + evaluations > self.limit or self.over():
            raise Spent
        self.spent[self._purpose] += evaluations

    @contextmanager
    def on(self, purpose: str) -> Iterator[None]:
        """What evaluations are for, for a while."""
        before, self._purpose = self._purpose, purpose
        try:
            yield
        finally:
            self._purpose = before


class Sum(NamedTuple):
    """a f + b g at a point.

    Attributes:
        value: the sum.
        f: f; NaN where a = 0.
        g: g; NaN where b = 0.
        v: the gradient with respect to v.
        theta: that with respect to θ.
        c: the constraints there.
    """

    value: float
    f: float
    g: float
    v: Tensor
    theta: Tensor
    c: Array


class Losses:
    """The losses of a problem.

    Attributes:
        v: v as a vector.
        theta: θ as a vector.
        meter: what evaluations are charged to.
    """

    def __init__(self, problem: Problem, oracle: Oracle, meter: Meter) -> None:
        self.problem, self.oracle, self.meter = problem, oracle, meter
        self.v = Vector(problem.v, problem.project_v)
        self.theta = Vector(problem.theta, problem.project_theta)

    def weighted(self, a: float, b: float, v: Tensor, theta: Tensor) -> Sum:
        """a f + b g and its gradient: an evaluation for each of the two that counts."""
        self.meter.charge((a != 0) + (b != 0))
        leaves = self.v.leaves(v), self.theta.leaves(theta)
        f = self.oracle.outer(*leaves, None) if a else None
        g = self.oracle.inner(*leaves, None) if b else None
        parts = [(w, loss) for w, loss in ((a, f), (b, g)) if loss is not None]
        grads = [(w, self.v.pack(loss.grad.v), self.theta.pack(loss.grad.theta)) for w, loss in parts]
        return Sum(
            value=sum(w * float(loss.value) for w, loss in parts),
            f=math.nan if f is None else float(f.value),
            g=math.nan if g is None else float(g.value),
            v=_sum([(w, grad) for w, grad, _ in grads]),
            theta=_sum([(w, grad) for w, _, grad in grads]),
            c=EMPTY,
        )


def _sum(terms: Sequence[tuple[float, Tensor]]) -> Tensor:
    weighted = [grad if w == 1 else w * grad for w, grad in terms]
    return weighted[0] if len(weighted) == 1 else weighted[0] + weighted[1]
