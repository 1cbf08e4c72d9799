"""Is the answer right? The stationarity measure of the paper, estimated and exact, and a verdict in words."""

from dataclasses import asdict, dataclass
from typing import Any

from bome._typing import Leaves
from bome.core.barrier import euclidean, kkt_gradient
from bome.core.trees import Pair, sub
from bome.inner import InnerMap
from bome.oracles import Oracle
from bome.problem import Batches


@dataclass(frozen=True)
class Stationarity:
    """𝒦 = min_{λ≥0} ‖∇f + λ∇q‖² + q at one point, with q measured from some end point of the inner problem.

    Attributes:
        kkt: 𝒦.
        gradient: its first part.
        q: its second part.
        f_norm: ‖∇f‖, the scale to judge the first part by.
        cos: the cosine between ∇f and ∇q; −1 where the two losses oppose each other.
    """

    kkt: float
    gradient: float
    q: float
    f_norm: float
    cos: float


@dataclass(frozen=True)
class Certificate:
    """What is known of the quality of a solution.

    Attributes:
        f: f at the point.
        g: g at the point.
        kkt: the estimate of 𝒦 from ∇q̂.
        kkt_gradient: its gradient part.
        q: q̂ after T inner steps, the other part.
        q_twice: q̂ after 2T inner steps: if it is much larger, T was too small.
        cos: cosine between ∇f and ∇q̂.
        lambda_zero_share: the share of steps at which the constraint was inactive (λ = 0); None if not measured.
        exact_kkt: 𝒦 from the inner solution itself, where it can be had (𝒦◇ where g has several basins).
        verdict: the same in plain words.
    """

    f: float
    g: float
    kkt: float
    kkt_gradient: float
    q: float
    q_twice: float
    cos: float
    lambda_zero_share: float | None
    exact_kkt: float | None
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def numbers(self) -> dict[str, float]:
        """What a row of a history has in common with it."""
        return {name: getattr(self, name) for name in ("f", "g", "q", "kkt_gradient", "kkt", "cos")}


def stationarity_at(oracle: Oracle, point: Pair, end: Leaves, batches: Batches) -> Stationarity:
    """𝒦 with q(v, θ) = g(v, θ) − g(v, end): exact where `end` is the inner solution."""
    v, theta = point
    g = oracle.inner(v, theta, batches.inner[0])
    g_end = oracle.inner(v, end, batches.inner[0], wrt="v")
    f = oracle.outer(v, theta, batches.outer[0])
    dq = Pair(sub(g.grad.v, g_end.grad.v), g.grad.theta)
    return _stationarity(f.grad, dq, float(g.value - g_end.value))


def certify(
    oracle: Oracle,
    point: Pair,
    inner: InnerMap,
    batches: Batches,
    exact_end: Leaves | None = None,
    lambda_zero_share: float | None = None,
) -> Certificate:
    """Certify a point by look-aheads of T and 2T steps, and by the inner solution where it is known."""
    v, theta = point
    g = oracle.inner(v, theta, batches.inner[0])
    once = oracle.look_ahead(v, theta, g, inner, batches.inner[:1])
    twice = oracle.look_ahead(v, theta, g, inner.with_steps(2 * inner.steps), batches.inner[:1])
    f = oracle.outer(v, theta, batches.outer[0])
    dq = Pair(sub(g.grad.v, once.grad.v), g.grad.theta)
    here = _stationarity(f.grad, dq, float(g.value - once.value))
    q_twice = float(g.value - twice.value)
    exact = None if exact_end is None else stationarity_at(oracle, point, exact_end, batches).kkt
    verdict = _verdict(here, q_twice, inner.steps)
    return Certificate(
        f=float(f.value),
        g=float(g.value),
        kkt=here.kkt,
        kkt_gradient=here.gradient,
        q=here.q,
        q_twice=q_twice,
        cos=here.cos,
        lambda_zero_share=lambda_zero_share,
        exact_kkt=exact,
        verdict=verdict,
    )


def _stationarity(df: Pair, dq: Pair, q: float) -> Stationarity:
    products = euclidean(df, dq)
    gradient = float(kkt_gradient(products))
    norms = float((products.ff * products.qq).sqrt())
    cos = float(products.fq) / norms if norms > 0 else 0.0
    return Stationarity(gradient + q, gradient, q, float(products.ff.sqrt()), cos)


def _verdict(here: Stationarity, q_twice: float, steps: int) -> str:
    left = here.gradient / here.f_norm**2 if here.f_norm > 0 else 0.0
    if here.q < -1e-12:
        return f"the inner loss rises along the look-ahead (q̂ = {here.q:.1e}): lower inner_lr"
    if abs(here.kkt) <= 1e-6:
        verdict = f"stationary: 𝒦 ≈ {here.kkt:.1e}"
    elif left <= 0.05:
        verdict = f"nearly stationary: {left:.1%} of ‖∇f‖² is not balanced by the constraint"
    elif here.q <= 1e-4 * here.f_norm**2:  # ∇q̂ vanishes where θ is optimal, so that nothing can balance ∇f there
        return f"θ solves the inner problem (q̂ = {here.q:.0e}); there 𝒦 does not tell whether v is optimal"
    else:
        verdict = f"not stationary yet: {left:.0%} of ‖∇f‖² is not balanced by the constraint; run longer"
    if here.q > 1e-9 and q_twice > 1.25 * here.q:
        more = q_twice / here.q - 1
        verdict += f"; T = {steps} may be too small: 2T inner steps find {more:.0%} more decrease of g"
    return verdict
