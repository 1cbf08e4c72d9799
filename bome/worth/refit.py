"""Trains θ anew on g(v, ·) alone, judges v by it, and puts everything back."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves, Projection
from bome.core.ranks import local
from bome.core.trees import Pair, dot
from bome.data.streams import Constant, Data, Stream
from bome.errors import ProblemError
from bome.inner import InnerMap, StepMap, check_inner
from bome.oracles import Eval, Oracle, OracleName, make
from bome.oracles.traces import snapshot
from bome.problem import Batches, Problem
from bome.projections import Box, Simplex
from bome.worth.judgement import Refit
from bome.worth.start import Start, undone

JUDGES = 5
"""Batches that f is averaged over, where it is given as minibatches."""
EARLY = 5
"""After this part of the steps f is looked at, too."""
SLOPES = 4
"""Gradients of g that are looked at beside the training, where the start is known."""
LOOK_EVERY = 50
"""Steps after which it is seen whether θ has diverged."""


def refit(
    problem: Problem,
    inner: InnerMap,
    *,
    data: Data | None = None,
    judge_on: Any = None,
    start: Start | None = None,
    oracle: OracleName | Oracle = "auto",
) -> Refit:
    """F(v) = f(v, θ*(v)): θ is trained on g(v, ·) alone, f is evaluated there, and θ is put back.

    Nothing else changes either: running statistics, random generators and the positions of streams are as before. As
    everywhere, a v or θ outside of its set is first moved to the nearest point of the set.

    Args:
        problem: with the v that is to be judged.
        inner: how θ is trained, such as `GradientDescent(lr=0.1, steps=1000)`; as long as θ is trained in earnest.
        data: batches for g and f; by default both losses get `None`.
        judge_on: a stream or one batch for f, of data that v has not seen; by default the batches of `data`.
        start: where θ starts, made before the run by `Start(problem)`; by default from θ as it is.
        oracle: how to differentiate.
    """
    check_inner(inner)
    oracle, data = make(problem, oracle), data if data is not None else Data()
    oracle.check_inner(inner)
    if start is not None:
        start.check(problem)
    if problem.constraints:
        raise ProblemError("refit knows no constraints: descent on g alone leads out of them; bome.solve gives F(v)")
    stream = data.outer if judge_on is None else as_stream(judge_on)
    with undone(problem):
        problem.enter_sets()
        return retrained(oracle, inner, data, stream, start)


def retrained(oracle: Oracle, inner: InnerMap, data: Data, stream: Stream, start: Start | None) -> Refit:
    """The same, but θ and running statistics stay where the training has ended.

    Args:
        oracle: of the problem; its counts stay as they are.
        inner: how θ is trained.
        data: batches for g.
        stream: batches for f.
        start: where θ starts; None for where it is.
    """
    problem = oracle.problem
    with _positions_kept(data, stream), _counted_apart(oracle) as cost:
        judge = _Judge(oracle, [stream.next() for _ in range(judges(stream))], data.inner.next())
        live = judge.f()
        first = flat = None
        if start is not None:
            start.mirror(problem)
            far = judge.slope(start.v), judge.slope(problem.point.v)
            start.write(problem)
            problem.enter_sets()
            first = judge.slope(start.v)
        f_start, slope = judge.f() if start is not None else live, judge.slope(problem.point.v)
        early = list[float]()
        values = _train(oracle, inner, data.inner, lambda: early.append(judge.f()))
        if first is not None:
            flat = max((b / a for a, b in (far, (first, slope)) if a > 0 and math.isfinite(b / a)), default=None)
        worth = judge.f() if values and math.isfinite(values[-1]) else math.nan
    return Refit(
        F=worth if math.isfinite(worth) else math.inf,
        f=live,
        f_start=f_start,
        **_descent(values)._asdict(),
        slope=slope,
        slope_first=first,
        flat=flat,
        steps=inner.steps,
        warm=start is None,
        on_bounds=tuple(_on_bounds(problem)),
        evaluations=dict(cost),
        f_early=early[0] if early else None,
    )


def as_stream(batches: Any) -> Stream:
    """A stream as it is, or one that always gives this batch."""
    return batches if hasattr(batches, "next") else Constant(batches)


def judges(stream: Stream) -> int:
    """Batches that f is averaged over."""
    return 1 if isinstance(stream, Constant) else JUDGES


class _Judge:
    """f and ‖∇_θ g‖ where θ stands.

    Args:
        oracle: the oracle.
        outer: the batches of f.
        inner: the batch of g; of a `PerSample` v its rows are the ones that f sees.
    """

    def __init__(self, oracle: Oracle, outer: Sequence[Any], inner: Any) -> None:
        self._oracle, self._problem = oracle, oracle.problem
        self._rows, placed = self._problem.localise(Batches(inner=(inner,), outer=tuple(outer)))
        self._outer, self._inner = placed.outer, placed.inner[0]

    def f(self) -> float:
        """The mean over the batches; their gradients in v are dropped."""
        (v, theta), restore = self._at(self._problem.point.v), snapshot(self._problem)
        values = [self._oracle.outer(v, theta, batch, "v").value.double() for batch in self._outer]
        restore()
        return float(torch.stack(values).mean())

    def slope(self, v: Leaves) -> float:
        """‖∇_θ g(v, θ)‖."""
        now = tuple(x.to(y.device) for x, y in zip(v, self._problem.point.v, strict=True))
        (v, theta), restore = self._at(now), snapshot(self._problem)
        grad = self._oracle.inner(v, theta, self._inner, "theta").grad.theta
        restore()
        return math.sqrt(float(dot(grad, grad)))

    def _at(self, v: Leaves) -> Pair:
        v = v if self._rows is None else tuple(x[self._rows] for x in v)
        return Pair(v, self._problem.point.theta)


def _train(oracle: Oracle, inner: InnerMap, batches: Stream, early: Callable[[], None]) -> list[float]:
    """Train the live θ on g(v, ·); g at each step, as far as it was finite. `early` is called after a fifth of them."""
    problem, path = oracle.problem, list[Tensor]()
    v, theta = problem.point
    if not isinstance(inner, StepMap):
        solved = oracle.descend(v, theta, inner, [batches.next()])
        for x, y in zip(theta, solved, strict=True):
            x.copy_(y)
        return [float(oracle.inner(v, theta, batches.next(), "v").value)]
    buffers = inner.start(theta)
    for t in range(inner.steps):
        oracle.begin()
        looks: list[Eval] = []
        rows, placed = problem.localise(Batches(inner=(batches.next(),), outer=()))
        seen = v if rows is None else tuple(x[rows] for x in v)

        def look(seen: Leaves = seen, batch: Any = placed.inner[0], looks: list[Eval] = looks) -> tuple[Tensor, Leaves]:
            g = oracle.inner(seen, theta, batch, "theta", like=looks[0] if looks else None)
            looks.append(g._replace(grad=Pair((), ())))
            return g.value, g.grad.theta

        buffers = inner.step_(theta, look, buffers)
        path.append(looks[0].value.double())  # g where the step began
        problem.project_theta.write(theta)
        if t + 1 == inner.steps // EARLY:
            early()
        if t % LOOK_EVERY == 0 and not bool(path[-1].isfinite()):
            break
    return torch.stack(path).tolist()


class _Descent(NamedTuple):
    g_start: float
    g: float
    late: float


def _descent(values: Sequence[float]) -> _Descent:
    """How g fell: means over the first, the middle and the last tenth of the values."""
    tenth = max(len(values) // 10, 1)
    middle = (len(values) - tenth) // 2
    start, half, end = (
        math.fsum(part) / tenth for part in (values[:tenth], values[middle : middle + tenth], values[-tenth:])
    )
    return _Descent(start, end, (half - end) / (start - end) if start > end else 0.0)


@contextmanager
def _counted_apart(oracle: Oracle) -> Iterator[Counter[str]]:
    """The evaluations within, which the oracle forgets afterwards."""
    before, cost = oracle.counts.copy(), Counter[str]()
    try:
        yield cost
    finally:
        cost.update(oracle.counts - before)
        oracle.counts = before


@contextmanager
def _positions_kept(data: Data, stream: Stream) -> Iterator[None]:
    """The streams stand where they were afterwards."""
    before = data.state_dict(), stream.state_dict()
    try:
        yield
    finally:
        data.load_state_dict(before[0])
        stream.load_state_dict(before[1])


def _on_bounds(problem: Problem) -> Iterator[str]:
    """The tensors of v of which all entries lie on one bound, or all rows in one corner of their simplex."""
    for name, x, rule in zip(problem.v.names, problem.point.v, problem.project_v.each, strict=True):
        if any(bool(on.all()) for on in _bounds(local(x), rule)):
            yield name


def _bounds(x: Tensor, rule: Projection | None) -> Iterator[Tensor]:
    if isinstance(rule, Box):
        low, high = rule.bounds(x)
        yield from (x <= low, x >= high)
    elif isinstance(rule, Simplex) and x.shape[-1] > 1:
        yield x.amax(-1) >= 1 - rule.floor * (x.shape[-1] - 1) - 1e-6
