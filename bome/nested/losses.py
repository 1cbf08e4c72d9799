"""f, g and the constraints at points given as vectors; each evaluation is charged to what it is for."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Level
from bome.core.ranks import is_sharded, synchronises
from bome.errors import ProblemError, UnsupportedError
from bome.nested.descent import NONE
from bome.nested.rows import Layout, Precision, arranged
from bome.nested.vectors import Vector
from bome.oracles import AutogradOracle, Oracle
from bome.oracles.autograd import connections
from bome.oracles.base import Eval
from bome.oracles.traces import generators, moved, snapshot
from bome.problem import Batches, Problem
from bome.solver import Solver
from bome.variable import Variable

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
        self._purpose: str | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.spent.values())

    def charge(self, evaluations: int) -> None:
        """Allow so many more, or say that they are too many."""
        if self.total + evaluations > self.limit or self.over():
            raise Spent
        self.spent[self._purpose or "other"] += evaluations

    @contextmanager
    def on(self, purpose: str) -> Iterator[None]:
        """What evaluations are for, for a while; within another purpose they stay what they were for."""
        before, self._purpose = self._purpose, self._purpose or purpose
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
    """The losses and constraints of a problem.

    Attributes:
        v: v as a vector.
        theta: θ as a vector.
        meter: what evaluations are charged to.
        inner: what solves the inner problem; None for descents of g.
        precision: of constraints.
        layout: how c is made of constraints; None where there are none.
        kept: rows of its Jacobian.
    """

    def __init__(self, problem: Problem, oracle: Oracle, meter: Meter, inner: Solver | None = None) -> None:
        self.problem, self.oracle, self.meter, self.inner = problem, oracle, meter, inner
        self.v = Vector(problem.v, problem.project_v)
        self.theta = Vector(problem.theta, problem.project_theta)
        self.precision = Precision.of(self.theta.start.dtype)
        self.layout: Layout | None = None
        if problem.constraints:
            sets = [vector.rows() for vector in (self.v, self.theta)]
            with meter.on("survey"):
                meter.charge(1)
            sizes = oracle.constraints(*problem.point, BATCHES, rows=()).sizes
            self.layout, self.kept = arranged(sizes, *sets)

    def weighted(self, a: float, b: float, v: Tensor, theta: Tensor, level: Level = "both") -> Sum:
        """a f + b g and its gradient, and the constraints: an evaluation for each of the two that counts."""
        self.meter.charge((a != 0) + (b != 0))
        leaves = self.v.leaves(v), self.theta.leaves(theta)
        f = self.oracle.outer(*leaves, None) if a else None
        g = self.oracle.inner(*leaves, None) if b else None
        parts = [(w, loss) for w, loss in ((a, f), (b, g)) if loss is not None]
        return Sum(
            value=sum(w * float(loss.value) for w, loss in parts),
            f=math.nan if f is None else float(f.value),
            g=math.nan if g is None else float(g.value),
            v=_sum([(w, self.v.pack(loss.grad.v)) for w, loss in parts]),
            theta=_sum([(w, self.theta.pack(loss.grad.theta)) for w, loss in parts]),
            c=self._constraints(v, theta, level, f or g),
        )

    def solved(self, solver: Solver, v: Tensor, theta: Tensor) -> Tensor:
        """θ*(v) by a program; it counts as one evaluation, as nobody sees how many it makes."""
        self.meter.charge(1)
        self.oracle.counts["solves"] += 1
        return self.theta.pack(solver.solve(self.problem, self.v.leaves(v), self.theta.leaves(theta), None))

    def constraints(self, v: Tensor, theta: Tensor, level: Level = "both") -> Array:
        """c alone: one evaluation."""
        self.meter.charge(1)
        return self._constraints(v, theta, level, None)

    def rows(self, v: Tensor, theta: Tensor, c: Array, wanted: Array) -> Array:
        """Rows of the Jacobian of c by (v, θ): those wanted as they are there, others as they were kept."""
        assert self.layout is not None  # noqa: S101 - asked for by the form with constraints alone
        x, k, number = joint(v, theta), len(c), self.layout.number
        off = np.abs(self.kept.predicted(x, k) - c) > self.precision.truth * np.maximum(1.0, np.abs(c))
        stale = (off & wanted) | np.isnan(self.kept.value[:k])
        if stale.any():
            asked = np.unique(number[:k][stale])
            self.meter.charge(len(asked))
            leaves = self.v.leaves(v), self.theta.leaves(theta)
            found = self.oracle.constraints(*leaves, BATCHES, rows=asked.tolist()).rows
            rows = np.array([joint(self.v.pack(row.v), self.theta.pack(row.theta)) for row in found])
            places = np.flatnonzero(np.isin(number[:k], asked))
            fresh = self.layout.sign[places, None] * rows[np.searchsorted(asked, number[places])]
            self.kept = self.kept.renewed(places, fresh, x, c[places])
        jacobian: Array = self.kept.jacobian[:k]
        return jacobian

    def _constraints(self, v: Tensor, theta: Tensor, level: Level, beside: Eval | None) -> Array:
        if self.layout is None:
            return NONE
        leaves = self.v.leaves(v), self.theta.leaves(theta)
        values = self.oracle.constraints(*leaves, BATCHES, rows=(), level=level, beside=beside).values
        k = self.layout.inner if level == "inner" else len(self.layout.number)
        number, sign = self.layout.number[:k], self.layout.sign[:k]
        if (number >= 0).all():
            c: Array = sign * _numbers(values)[number]
            return c
        c = self.kept.predicted(joint(v, theta), k)
        c[number >= 0] = (sign * np.append(_numbers(values), 0.0)[number])[number >= 0]
        return c


def check_problem(problem: Problem) -> None:
    """Refuse in one line what full-batch descents of vectors cannot solve."""
    if problem.v.table is not None:
        raise UnsupportedError("solve sees all samples at once, PerSample only those of a batch: use a tensor for v")
    if any(synchronises(module) for module in problem.modules):
        raise UnsupportedError("solve works in one process: use bome.run for DDP and FSDP2 modules")
    for variable in (problem.v, problem.theta):
        _check_leaves(variable)
    before = generators()
    restore = snapshot(problem)
    oracle = AutogradOracle(problem)
    for which in (oracle.outer, oracle.inner):
        if not torch.isfinite(which(*problem.point, None).value):
            raise ProblemError(f"{which.__name__} loss is NaN or infinite at the start: start from another point")
    links = connections(problem, BATCHES)
    noisy = moved(before)
    restore()
    for loss, name in (("f", "outer"), ("g", "inner")):
        if not links & {(loss, "v"), (loss, "theta")}:
            raise ProblemError(
                f"no gradient flows from the {name} loss to v or theta: are they used, and not detached?"
            )
    if noisy:
        raise UnsupportedError("the losses draw random numbers: call .eval() on modules with dropout, and fix samples")


def _check_leaves(variable: Variable) -> None:
    for leaf in variable.leaves:
        if is_sharded(leaf):
            raise UnsupportedError(f"solve works in one process, and {variable.role} is sharded: use bome.run")
        if torch.finfo(leaf.dtype).bits < 32:
            raise UnsupportedError(
                f"{variable.role} has dtype {leaf.dtype}, too coarse for solve: convert it to float32 or float64"
            )


def joint(v: Tensor, theta: Tensor) -> Array:
    """(v, θ) as one vector of numbers in float64."""
    return np.concatenate([_numbers(v), _numbers(theta)])


def _numbers(x: Tensor) -> Array:
    numbers: Array = x.detach().double().cpu().numpy()
    return numbers


def _sum(terms: Sequence[tuple[float, Tensor]]) -> Tensor:
    weighted = [grad if w == 1 else w * grad for w, grad in terms]
    return weighted[0] if len(weighted) == 1 else weighted[0] + weighted[1]
