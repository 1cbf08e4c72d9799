"""Brute force: inner minima, and the best answer to an x, by scipy from many starts.

It is there to judge answers. It looks at all of a problem's formulas at thousands of points, and tells no solver.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from bome.tasks.bolib.record import Numbers, Record, point

Vector: TypeAlias = NDArray[np.float64]
Loss: TypeAlias = Callable[[Tensor], Tensor]
Excess: TypeAlias = Callable[[Tensor], list[Tensor]]

STARTS, GRID = 8, 2001
"""Random starts of a search over y, and points of the line that is looked at first where y is a number."""

FAR = 10.0
"""How far from the start a search looks along an entry that has no bounds."""

SLACK, TIE = 1e-7, 1e-7
"""How much a constraint may be violated, and how near two values of g are that count as one, relative to 1 + |g|."""

FURTHER, FEW = 4, 6
"""Starts beside that of the library to find how far a set reaches, where there are at most so many unknowns."""

_WIDTH = 1e-6
"""Of the finite differences."""


class Inner(NamedTuple):
    """What is found of the inner problem at an x.

    Attributes:
        value: the lowest g; infinite where no y is feasible.
        minimisers: those found, best first; some may be nearly the same.
    """

    value: float
    minimisers: tuple[Vector, ...]


def inner_minimum(record: Record, x: Tensor, first: Tensor | None = None) -> Inner:
    """The global minimum of g(x, ·), as far as many starts can tell; `first` is one of them.

    Where no y is feasible at this x, the inner constraints give way by as much as `first` violates them.
    """
    known = () if first is None else (tuple(first.tolist()),)
    found = _inner_minimum(_Hashed(record), tuple(x.tolist()), known, 0.0)
    if found.minimisers or first is None:
        return found
    slack = max((float(c) for c in record.inner_excess(x, first)), default=0.0)
    return _inner_minimum(_Hashed(record), tuple(x.tolist()), known, slack) if 0 < slack < math.inf else found


def best_answer(record: Record, x: Tensor) -> tuple[float, Vector | None]:
    """The lowest f(x, y) over the inner minimisers y that the outer constraints allow; infinite if there is none."""
    inner = inner_minimum(record, x)
    best: tuple[float, Vector | None] = (math.inf, None)
    for y in (*inner.minimisers, *_tilted(record, x, inner)):
        here = torch.from_numpy(y)
        level = float(record.g(x, here)) - inner.value
        if level > TIE * (1 + abs(inner.value)) or record.violation(x, here) > SLACK * 10:
            continue
        f = float(record.f(x, here))
        if f < best[0]:
            best = (f, y)
    return best


def local_minimum(record: Record, x: Tensor, start: Vector) -> tuple[Vector | None, int]:
    """Where a single descent on g(x, ·) ends, or None if that is not feasible; with the gradients of g it has cost."""
    loss, excess = partial(record.g, x[:, None]), partial(_inner_excess, record, x, 0.0)
    probe = _Probe(loss, excess)
    return _descend(probe, start, _bounds(record)), probe.calls


@lru_cache(maxsize=64)
def extents(key: "_Hashed") -> tuple[tuple[float, float], ...]:
    """The interval of each entry of (x, y) that holds all feasible points, or those near the start.

    An inner solution may violate the outer constraints, so that these count for x only.
    """
    record, start = key.record, np.array([*key.record.start[0], *key.record.start[1]], dtype=np.float64)
    n, near = len(record.start[0]), [(a - 100 * FAR, a + 100 * FAR) for a in start]
    starts = [start, *(start + np.random.default_rng(0).normal(size=(FURTHER if len(start) <= FEW else 0, len(start))))]

    def inner(z: Tensor) -> list[Tensor]:
        return list(record.inner_excess(z[:n], z[n:]))

    def both(z: Tensor) -> list[Tensor]:
        return [*record.outer_excess(z[:n], z[n:]), *inner(z)]

    def end(i: int, sign: float, within: list[tuple[float, float]]) -> float:
        probe = _Probe(lambda z: sign * z[i], both if i < n else inner)
        ends = [found[i] for first in starts if (found := _descend(probe, first, within)) is not None]
        near_by = [z for z in ends if abs(z - start[i]) < 25 * FAR]
        return sign * min(sign * float(z) for z in near_by) if near_by else float(start[i]) - sign * FAR

    of_x = [(end(i, 1.0, near), end(i, -1.0, near)) for i in range(n)]
    within = [*((min(pair), max(pair)) for pair in of_x), *near[n:]]
    return (*of_x, *((end(i, 1.0, within), end(i, -1.0, within)) for i in range(n, len(start))))


def reach(record: Record) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
    """`extents` of x and of y."""
    pairs, n = extents(_Hashed(record)), len(record.start[0])
    return pairs[:n], pairs[n:]


class _Hashed:
    """A record as part of a key: records of one name are one."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __hash__(self) -> int:
        return hash(self.record.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.record is other.record


@lru_cache(maxsize=100_000)
def _inner_minimum(key: _Hashed, numbers: Numbers, known: tuple[Numbers, ...], slack: float) -> Inner:
    record, x = key.record, point(numbers)
    loss = partial(record.g, x[:, None])
    found = list(_minimisers(loss, partial(_inner_excess, record, x, slack), record, [np.asarray(y) for y in known]))
    found.sort(key=lambda pair: pair[0])
    if not found:
        return Inner(math.inf, ())
    lowest = found[0][0]
    return Inner(lowest, tuple(y for g, y in found if g - lowest <= TIE * (1 + abs(lowest))))


def _tilted(record: Record, x: Tensor, inner: Inner) -> Iterator[Vector]:
    """Minimisers of g and a little of f: of several inner minimisers, those that f prefers."""
    column, size = x[:, None], 1e-6 * (1 + abs(inner.value))

    def tilted(y: Tensor) -> Tensor:
        return record.g(column, y) + size * record.f(column, y)

    def excess(y: Tensor) -> list[Tensor]:
        return [*record.inner_excess(column, y), *record.outer_excess(column, y)]

    if inner.minimisers:
        yield from (y for _, y in _minimisers(tilted, excess, record, list(inner.minimisers[:2])))


def _inner_excess(record: Record, x: Tensor, slack: float, y: Tensor) -> list[Tensor]:
    return [c - slack for c in record.inner_excess(x[:, None], y)]


def _minimisers(loss: Loss, excess: Excess, record: Record, known: list[Vector]) -> Iterator[tuple[float, Vector]]:
    """Where descent from many starts ends, with the value there; infeasible ends are left out."""
    for start in (*known, *_starts(reach(record)[1], loss, excess)):
        end = _descend(_Probe(loss, excess), start, _bounds(record))
        if end is not None:
            yield float(loss(torch.from_numpy(end)[:, None])), end


def _bounds(record: Record) -> list[tuple[float, float]]:
    """Beyond which no y is looked for."""
    return [(low - 100 * FAR, high + 100 * FAR) for low, high in reach(record)[1]]


def _starts(sides: tuple[tuple[float, float], ...], loss: Loss, excess: Excess) -> Iterator[Vector]:
    """The best places of a line for a number, otherwise random points, and the middle."""
    low, high = (np.array(side) for side in zip(*sides, strict=True))
    if len(sides) == 1:
        line = torch.linspace(float(low[0]), float(high[0]), GRID, dtype=torch.float64)[None]
        values = loss(line).expand(GRID).clone()
        for c in excess(line):
            values[c.expand(GRID) > SLACK] = math.inf
        inside = torch.cat([values[:1], torch.minimum(values[:-2], values[2:]), values[-1:]])
        pits = torch.nonzero((values <= inside) & values.isfinite()).reshape(-1)
        best = pits[values[pits].argsort()][:STARTS]
        yield from (line[:, i].numpy() for i in best)
        if not len(best):  # the feasible y may lie between two points of the line
            yield (low + high) / 2
    else:
        random = np.random.default_rng(0)
        yield np.clip(np.zeros(len(low)), low, high)
        yield from (low + (high - low) * random.random(len(low)) for _ in range(STARTS))


def _descend(probe: "_Probe", start: Vector, near: list[tuple[float, float]]) -> Vector | None:
    """Sequential quadratic programming to a feasible minimum, or None."""
    constraints: list[dict[str, Any]] = []
    if probe.constraints(start)[0].size:
        constraints = [
            {"type": "ineq", "fun": lambda z: -probe.constraints(z)[0], "jac": lambda z: -probe.constraints(z)[1]}
        ]
    with np.errstate(all="ignore"):
        found = minimize(
            probe.objective,
            start,
            jac=True,
            bounds=near,
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-14},
        )
    z: Vector = np.asarray(found.x, dtype=np.float64)
    if not np.isfinite(z).all() or not np.isfinite(probe.objective(z)[0]):
        return None
    return z if max(probe.constraints(z)[0], default=0.0) <= SLACK else None


class _Probe:
    """Values and finite differences of a loss and of constraints, each in one call for all neighbours of a point.

    Attributes:
        calls: how many gradients of the loss were asked for.
    """

    def __init__(self, loss: Loss, excess: Excess) -> None:
        self._loss, self._excess = loss, excess
        self.calls = 0

    def objective(self, z: Vector) -> tuple[float, Vector]:
        self.calls += 1
        values = self._loss(self._around(z)).expand(2 * len(z) + 1).numpy()
        return float(values[0]), self._slopes(values[None], len(z))[0]

    def constraints(self, z: Vector) -> tuple[Vector, Vector]:
        rows = self._excess(self._around(z))
        if not rows:
            return np.zeros(0), np.zeros((0, len(z)))
        values = torch.stack([row.expand(2 * len(z) + 1) for row in rows]).numpy()
        return values[:, 0], self._slopes(values, len(z))

    def _around(self, z: Vector) -> Tensor:
        steps = _WIDTH * np.eye(len(z))
        return torch.from_numpy(z[:, None] + np.concatenate([np.zeros((len(z), 1)), steps, -steps], axis=1))

    def _slopes(self, values: Vector, n: int) -> Vector:
        slopes: Vector = (values[:, 1 : n + 1] - values[:, n + 1 :]) / (2 * _WIDTH)
        return slopes
