"""A certificate for the answer of a method: the measures of the paper, and what tests say."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from bome._typing import Leaves
from bome.certificate.looks import Looks, Meter, halves
from bome.certificate.measure import stationarity
from bome.certificate.probe import Probe
from bome.certificate.questions import TOLERANCE, Path, Questions
from bome.certificate.verdict import Certificate
from bome.core.barrier import Metric
from bome.core.trees import Pair, clone
from bome.inner import InnerMap, Look, StepMap
from bome.oracles import Oracle
from bome.oracles.base import Eval
from bome.problem import Batches
from bome.solver import Solver

MOST, SHARE = 500, 10
"""The most evaluations of a certificate; and it takes at most the tenth part of those of the run."""


def allowed(evaluations: int) -> int:
    """How many evaluations the certificate of a run with so many of its own may take, beside the look-aheads."""
    return min(MOST, evaluations // SHARE)


def certify(
    oracle: Oracle,
    point: Pair,
    inner: InnerMap,
    batches: Batches,
    exact_end: Leaves | None = None,
    lambda_zero_share: float | None = None,
    *,
    sample: bool = False,
    allowed: int = MOST,
    first: Mapping[str, Any] | None = None,
    metric: Metric | None = None,
) -> Certificate:
    """Certify a point: by look-aheads of T and 2T steps, by inner descents from here and elsewhere, by moves of v.

    Args:
        oracle: of its own, since evaluations are counted.
        point: (v, θ).
        inner: the inner map of the method.
        batches: all data as one batch each, or several random ones.
        exact_end: the inner solution, where it is known.
        lambda_zero_share: the share of steps with λ = 0, which only the run knows.
        sample: whether the batches are random ones.
        allowed: the most evaluations; the look-aheads are made in any case.
        first: the first row of the history, whose f and g tell divergence.
        metric: the step sizes of the run, by which projections are judged; by default 1.
    """
    meter = Meter()
    looks = Looks(oracle, batches, meter)
    path = _path(looks, point, inner, batches.inner[0])
    f = looks.f(*point)
    ends = [path.once, path.twice, *([] if exact_end is None else [looks.g(point.v, exact_end, "v")])]
    once, twice, *exact = (stationarity(looks.problem, point, f, path.first, end, metric) for end in ends)
    meter.allowed = max(allowed, meter.spent)
    start = {name: value for name, value in (first or {}).items() if isinstance(value, float)}
    parts = [Looks(oracle, part, meter) for part in halves(batches)] if sample else [looks]
    questions = Questions(
        looks,
        [Probe(part, point) for part in parts],
        f,
        path,
        exact_end,
        start,
        len(batches.inner) if sample else 0,
        metric,
    )
    return Certificate(
        f=float(f.value),
        g=path.values[0],
        q=once.q,
        kkt=once.kkt,
        kkt_gradient=once.gradient,
        q_twice=twice.q,
        cos=once.cos,
        lambda_zero_share=lambda_zero_share,
        exact_kkt=exact[0].kkt if exact else None,
        tests=tuple(questions.answers()),
        claim=f"stationary to {TOLERANCE:.0%}" + (f" on {len(batches.inner)} random batches" if sample else ""),
        evaluations=dict(meter.counts),
    )


def _path(looks: Looks, point: Pair, inner: InnerMap, batch: Any) -> Path:
    """2T + 1 inner steps, so that an even and an odd number of them can be compared; a `Solver` has only an end."""
    v, theta = point.v, clone(point.theta)
    if isinstance(inner, Solver):
        first, end = looks.g(v, theta), looks.g(v, inner.solve(looks.problem, v, theta, batch), "v")
        return Path(1, [float(first.value), *[float(end.value)] * 3], first, end, end)
    assert isinstance(inner, StepMap)  # noqa: S101 - there is no third kind
    buffers, values, kept = inner.start(theta), list[float](), list[Eval]()
    for t in range(2 * inner.steps + 2):
        wanted = t in (0, inner.steps, 2 * inner.steps)
        g = looks.g(v, theta, "both" if wanted else "theta")
        values.append(float(g.value))
        if wanted:
            kept.append(g)
        if t <= 2 * inner.steps:
            buffers = inner.step_(theta, _seen_once(g, partial(looks.g, v, theta, "theta")), buffers)
            looks.problem.project_theta.write(theta)
    return Path(inner.steps, values, *kept)


def _seen_once(first: Eval, again: Callable[[], Eval]) -> Look:
    """Looks at g for an inner step: what is seen first is known already."""
    known = [first]

    def look() -> tuple[Tensor, Leaves]:
        g = known.pop() if known else again()
        return g.value, g.grad.theta

    return look
