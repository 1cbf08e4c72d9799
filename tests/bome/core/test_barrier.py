"""λ against the quadratic problem min ‖∇f − δ‖² subject to ⟨∇q̂, δ⟩ ≥ φ, at every scale and dtype."""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from bome.core.barrier import Metric, Phi, Products, barrier, euclidean, kkt_gradient, multiplier, weighted
from bome.core.trees import Pair, axpy, dot

KINDS: tuple[Phi, ...] = ("norm", "gap")
ETA = 0.5


class Solved(NamedTuple):
    """What the formula gives for one pair of gradients, and how well it meets the constraint."""

    lam: Tensor
    delta: Tensor
    phi: Tensor
    slack: Tensor  # ⟨∇q̂, δ⟩ − φ, recomputed in float64
    size: Tensor  # ‖∇f‖‖∇q̂‖ + φ


def solve(df: Tensor, dq: Tensor, gap: Tensor, kind: Phi, eps: float = 0.0) -> Solved:
    """One step's λ and δ, with v the first three entries and θ the others."""
    f, q = Pair((df[:3],), (df[3:],)), Pair((dq[:3],), (dq[3:],))
    products = euclidean(f, q)
    phi = barrier(kind, ETA, products, gap)
    lam = multiplier(products, phi, eps)
    delta = torch.cat([*axpy(lam, q.v, f.v), *axpy(lam, q.theta, f.theta)])
    slack = dot((dq,), (delta,)) - phi
    return Solved(lam, delta, phi, slack, products.ff.sqrt() * products.qq.sqrt() + phi)


def draws(n: int, dtype: torch.dtype, low: float, high: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """n pairs of gradients of 8 entries; scales 10^low..10^high for each, in a third of the cases for each entry.

    The gap q̂ is ‖∇q̂‖ times a number of such a scale, so that the solution of the problem is a number of the dtype. In a
    tenth of the cases ∇f is −∇q̂, up to its scale, and in a hundredth ∇q̂ is zero.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)

    scale_f, scale_q, entrywise = uniform(n, 1), uniform(n, 1), torch.arange(n)[:, None] % 3 == 0
    df = torch.randn(n, 8, generator=generator, dtype=torch.float64) * 10 ** torch.where(
        entrywise, uniform(n, 8), scale_f
    )
    dq = torch.randn(n, 8, generator=generator, dtype=torch.float64) * 10 ** torch.where(
        entrywise, uniform(n, 8), scale_q
    )
    base = torch.randn(n, 8, generator=generator, dtype=torch.float64)
    opposed = torch.arange(n)[:, None] % 10 == 1
    df, dq = torch.where(opposed, -base * 10**scale_f, df), torch.where(opposed, base * 10**scale_q, dq)
    dq = torch.where(torch.arange(n)[:, None] % 100 == 7, 0.0, dq)
    gap = dq.norm(dim=1) * 10 ** uniform(n, 1)[:, 0]
    return df.to(dtype), dq.to(dtype), gap


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_constraint_holds_in_a_hundred_thousand_cases_of_all_scales(
    kind: Phi, dtype: torch.dtype, bound: float
) -> None:
    """λ ≥ 0, ⟨∇q̂, δ⟩ ≥ φ, and equality where λ > 0: the optimality conditions, with δ = ∇f + λ∇q̂ by construction.

    Relative to ‖∇f‖‖∇q̂‖ + φ the rounding of δ alone gives about 2 · 2^-24 = 1.2e-7 in float32 and 2e-16 in float64.
    """
    df, dq, gap = draws(100_000, dtype, -30, 30)
    solved = vmap(lambda f, q, g: solve(f, q, g, kind))(df, dq, gap)
    for quantity in solved:
        assert torch.isfinite(quantity).all()
    assert solved.delta.dtype == dtype
    assert (solved.lam >= 0).all()
    some = dq.double().abs().amax(1) > 0
    relative = solved.slack / solved.size.clamp(min=1e-300)
    assert float(-relative[some].min()) <= bound
    assert float(relative[some & (solved.lam > 0)].abs().max()) <= bound
    zero = ~some
    assert int(zero.sum()) == 1000
    assert (solved.lam[zero] == 0).all()
    assert torch.equal(solved.delta[zero], df[zero])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.bfloat16, -30, 30), (torch.float16, -6, 3.5)])
def test_half_precision_gradients_of_all_scales_give_finite_directions(
    kind: Phi, dtype: torch.dtype, low: float, high: float
) -> None:
    """The range of bfloat16 is that of float32; float16 ends at 65504, so its scales are 1e-6 (subnormal) to 3e3."""
    df, dq, gap = draws(100_000, dtype, low, high)
    assert torch.isfinite(df).all()
    assert torch.isfinite(dq).all()
    solved = vmap(lambda f, q, g: solve(f, q, g, kind))(df, dq, gap)
    assert solved.delta.dtype == dtype
    for quantity in solved:
        assert torch.isfinite(quantity).all()
    assert (solved.lam >= 0).all()


def test_adding_1e_8_to_the_denominator_breaks_the_constraint() -> None:
    """The control: with scales 1e-6..10 more than a fifth of the cases miss it by more than 1e-4."""
    df, dq, gap = draws(100_000, torch.float64, -6, 1)
    exact = vmap(lambda f, q, g: solve(f, q, g, "norm"))(df, dq, gap)
    published = vmap(lambda f, q, g: solve(f, q, g, "norm", 1e-8))(df, dq, gap)
    missed = [float((-s.slack > 1e-4 * s.size).double().mean()) for s in (exact, published)]
    assert missed[0] == 0
    assert missed[1] > 0.2


@st.composite
def gradients(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    size = draw(st.integers(4, 9))
    entry = st.one_of(
        st.just(0.0),
        st.builds(
            lambda m, e, sign: sign * m * 10.0**e, st.floats(0.1, 1), st.integers(-30, 30), st.sampled_from([-1, 1])
        ),
    )
    return draw(st.lists(entry, min_size=size, max_size=size)), draw(st.lists(entry, min_size=size, max_size=size))


@given(pair=gradients(), gap=st.just(0.0) | st.floats(1e-30, 1e30), kind=st.sampled_from(KINDS))
@settings(max_examples=300, deadline=None)
def test_lambda_is_the_exact_rational_solution(pair: tuple[list[float], list[float]], gap: float, kind: Phi) -> None:
    """The exact λ, in rational numbers of the very same floats; the error is measured against the size of its terms.

    λ ≥ 0, and zero where ∇q̂ is.
    """
    f, q = ([Fraction(x) for x in side] for side in pair)
    qq, fq = sum(x * x for x in q), sum((x * y for x, y in zip(f, q, strict=True)), Fraction(0))
    df, dq = (torch.tensor(side, dtype=torch.float64) for side in pair)
    solved = solve(df, dq, torch.tensor(gap, dtype=torch.float64), kind)
    lam = float(solved.lam)
    assert math.isfinite(lam)
    assert lam >= 0
    if qq == 0:
        assert lam == 0
    else:
        phi = Fraction(ETA) * (qq if kind == "norm" else Fraction(gap))
        exact = max((phi - fq) / qq, Fraction(0))
        size = (phi + sum(abs(x * y) for x, y in zip(f, q, strict=True))) / qq
        assert abs(Fraction(lam) - exact) <= Fraction(1, 10**13) * size


@pytest.mark.parametrize("kind", KINDS)
def test_the_direction_is_what_a_solver_of_quadratic_problems_finds(kind: Phi) -> None:
    """100 random problems for each φ, by SLSQP; active and inactive constraints both occur."""
    generator = torch.Generator().manual_seed(3)
    active = 0
    for _ in range(100):
        df, dq = (torch.randn(6, generator=generator, dtype=torch.float64) for _ in range(2))
        gap = torch.rand((), generator=generator, dtype=torch.float64)
        solved = solve(df, dq, gap, kind)
        f, q, phi = df.numpy(), dq.numpy(), float(solved.phi)
        found: Any = scipy.optimize.minimize(
            lambda x, f=f: 0.5 * ((x - f) ** 2).sum(),
            np.zeros(6),
            jac=lambda x, f=f: x - f,
            constraints={"type": "ineq", "fun": lambda x, q=q, phi=phi: q @ x - phi, "jac": lambda x, q=q: q},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 200},
        )
        assert found.success
        np.testing.assert_allclose(solved.delta.numpy(), found.x, atol=1e-6)
        active += int(solved.lam > 0)
    assert 20 < active < 100


def test_a_negative_gap_counts_as_zero() -> None:
    """Where the inner loop diverged, φ = 0: the step must not increase q̂, no more."""
    products = Products(*(torch.tensor(x, dtype=torch.float64) for x in (1.0, -0.5, 2.0)))
    assert float(barrier("gap", ETA, products, torch.tensor(-3.0))) == 0
    assert float(multiplier(products, barrier("gap", ETA, products, torch.tensor(-3.0)))) == 0.25


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_splitting_and_permuting_the_tensors_gives_the_same_multiplier(dtype: torch.dtype) -> None:
    """Only the order of 40 additions in float64 changes."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        df, dq = (torch.randn(40, generator=generator, dtype=dtype) for _ in range(2))
        whole = euclidean(Pair((df[:10],), (df[10:],)), Pair((dq[:10],), (dq[10:],)))
        order = torch.randperm(40, generator=generator)
        f, q = df[order], dq[order]
        parts = [1, 4, 15, 20]
        split = euclidean(
            Pair(torch.split(f, parts)[:2], tuple(x.reshape(-1, 5) for x in torch.split(f, parts)[2:])),
            Pair(torch.split(q, parts)[:2], tuple(x.reshape(-1, 5) for x in torch.split(q, parts)[2:])),
        )
        for products in (whole, split):
            assert products.qq > 0
        lams = [float(multiplier(p, barrier("norm", ETA, p, torch.zeros(())))) for p in (whole, split)]
        assert lams[0] == pytest.approx(lams[1], rel=1e-12, abs=1e-12)


def _pair(generator: torch.Generator) -> Pair:
    return Pair(
        tuple(torch.randn(n, generator=generator, dtype=torch.float64) for n in (2, 3)),
        tuple(torch.randn(n, generator=generator, dtype=torch.float64) for n in (4, 1)),
    )


def test_equal_step_sizes_make_the_weighted_products_euclidean() -> None:
    generator = torch.Generator().manual_seed(2)
    df, dq = _pair(generator), _pair(generator)
    plain, scaled = euclidean(df, dq), weighted(df, dq, Metric((0.07, 0.07), (0.07, 0.07)))
    assert all(torch.equal(a, b) for a, b in zip(plain, scaled, strict=True))


def test_weighted_products_make_the_constraint_hold_for_the_step_really_taken() -> None:
    """With S = diag(step sizes) over the largest of θ: ⟨∇q̂, Sδ⟩ ≥ φ; the Euclidean λ breaks it in some of the cases."""
    generator = torch.Generator().manual_seed(4)
    metric = Metric((100.0, 1.0), (0.01, 0.002))
    steps = [s / 0.01 for s in metric.v + metric.theta]
    worst = {"weighted": 0.0, "euclidean": 0.0}
    for _ in range(200):
        df, dq = _pair(generator), _pair(generator)
        true = weighted(df, dq, metric)
        phi = barrier("norm", ETA, true, torch.zeros(()))
        size = float(true.ff.sqrt() * true.qq.sqrt() + phi)
        for name, products in (("weighted", true), ("euclidean", euclidean(df, dq))):
            lam = multiplier(products, barrier("norm", ETA, products, torch.zeros(())))
            delta = axpy(lam, dq.v + dq.theta, df.v + df.theta)
            gained = sum(s * float(dot((q,), (d,))) for s, q, d in zip(steps, dq.v + dq.theta, delta, strict=True))
            worst[name] = max(worst[name], (float(phi) - gained) / size)
    assert worst["weighted"] <= 1e-12
    assert worst["euclidean"] > 0.01


def test_step_sizes_of_zero_leave_a_finite_multiplier() -> None:
    """A schedule may start at 0: if only θ rests, S is relative to the step of v; if all rests, λ = 0."""
    generator = torch.Generator().manual_seed(2)
    df, dq = _pair(generator), _pair(generator)
    still = weighted(df, dq, Metric((0.5, 0.5), (0.0, 0.0)))
    only_v = euclidean(Pair(df.v, ()), Pair(dq.v, ()))
    assert float(still.qq) == pytest.approx(float(only_v.qq), rel=1e-15)
    nothing = weighted(df, dq, Metric((0.0, 0.0), (0.0, 0.0)))
    assert float(multiplier(nothing, barrier("norm", ETA, nothing, torch.zeros(())))) == 0


def test_the_gradient_part_of_stationarity_is_the_squared_distance_to_a_half_line() -> None:
    """min_{λ≥0} ‖∇f + λ∇q̂‖²: for ∇f = (−3, 4), ∇q̂ = (1, 0) it is 16 at λ = 3; for ∇q̂ = (−1, 0) it is 25 at λ = 0."""
    df = Pair((torch.tensor([-3.0]),), (torch.tensor([4.0]),))
    for sign, expected in ((1.0, 16.0), (-1.0, 25.0)):
        dq = Pair((torch.tensor([sign]),), (torch.tensor([0.0]),))
        assert float(kkt_gradient(euclidean(df, dq))) == expected
