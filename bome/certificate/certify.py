"""The stationarity measure of the paper, estimated and exact, and what it tells."""

from dataclasses import dataclass

from bome._typing import Leaves
from bome.certificate.verdict import Certificate, Test
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
        tests=(_rise(here), _balance(here), _enough(here, q_twice, inner.steps)),
    )


def _stationarity(df: Pair, dq: Pair, q: float) -> Stationarity:
    products = euclidean(df, dq)
    gradient = float(kkt_gradient(products))
    norms = float((products.ff * products.qq).sqrt())
    cos = float(products.fq) / norms if norms > 0 else 0.0
    return Stationarity(gradient + q, gradient, q, float(products.ff.sqrt()), cos)


def _rise(here: Stationarity) -> Test:
    holds = here.q >= -1e-12
    said = "the inner steps decrease g" if holds else f"g rises along the look-ahead (q̂ = {here.q:.1e}): lower inner_lr"
    return Test("the inner steps decrease g", -here.q, 1e-12, holds, said)


def _balance(here: Stationarity) -> Test:
    left = here.gradient / here.f_norm**2 if here.f_norm > 0 else 0.0
    name = "the constraint balances ∇f"
    if abs(here.kkt) <= 1e-6 or left <= 0.05:
        return Test(
            name, left, 0.05, True, f"{left:.1%} of ‖∇f‖² is not balanced by the constraint, 𝒦 ≈ {here.kkt:.1e}"
        )
    if here.q <= 1e-4 * here.f_norm**2:  # ∇q̂ vanishes where θ is optimal, so that nothing can balance ∇f there
        said = f"θ solves the inner problem (q̂ = {here.q:.0e}); there 𝒦 does not tell whether v is optimal"
        return Test(name, left, 0.05, None, said)
    return Test(name, left, 0.05, False, f"{left:.0%} of ‖∇f‖² is not balanced by the constraint; run longer")


def _enough(here: Stationarity, q_twice: float, steps: int) -> Test:
    if here.q <= 1e-9:
        return Test("T is enough", None, 0.25, True, "T is enough")
    more = q_twice / here.q - 1
    said = f"T = {steps} may be too small: 2T inner steps find {more:.0%} more decrease of g"
    return Test("T is enough", more, 0.25, more <= 0.25, said if more > 0.25 else "T is enough")
