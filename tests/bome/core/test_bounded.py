"""λ of the step that projections leave, against a solver of quadratic problems, closed forms, and a search by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor
from torch.func import vmap

from bome._typing import Array, Projection
from bome.core.barrier import Metric, barrier, euclidean, kkt_gradient, multiplier, relative, weighted
from bome.core.bounded import Bounded
from bome.core.trees import Pair
from bome.projections import Rules, ball, box, half_space, joint, polyhedron, simplex

ETA = 0.5


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def bounded(x: Tensor, f: Tensor, q: Tensor, rate: float, rule: Projection | None) -> Bounded:
    """Of one tensor θ, and no v."""
    point, df, dq = (Pair((), (each,)) for each in (x, f, q))
    return Bounded(point, df, dq, Metric((), (rate,)), (Rules(()), Rules((rule,))))


def lam_of(x: Tensor, f: Tensor, q: Tensor, rate: float, rule: Projection | None) -> float:
    return float(bounded(x, f, q, rate, rule).multiplier("norm", ETA, torch.zeros(())))


def left(x: Tensor, direction: Tensor, rate: float, rule: Projection) -> Tensor:
    return (x - rule(x - rate * direction)) / rate


def by_qp(x: Tensor, f: Tensor, q: Tensor, rate: float, rule: Any, phi: float) -> Array:
    """The direction nearest to ∇f that stays in the set and reaches φ."""
    rows = rule.rows(x)
    most, equal = ((b - A @ x).numpy() / rate for A, b in (rows[:2], rows[2:]))
    limits = [LinearConstraint(-rows.A.numpy(), -np.inf, most)] if len(most) else []
    limits += [LinearConstraint(-rows.E.numpy(), equal, equal)] if len(equal) else []
    limits.append(LinearConstraint(q.numpy()[None], phi, np.inf))
    start = left(x, 1e3 * q, rate, rule).numpy()
    found = minimize(
        lambda d: 0.5 * np.sum((d - f.numpy()) ** 2), start, jac=lambda d: d - f.numpy(), constraints=limits,
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    return np.asarray(found.x)


def rule_of(kind: str, draw: np.random.Generator, n: int) -> Projection:
    if kind == "box":
        return box(torch.zeros(n, dtype=torch.float64), torch.from_numpy(draw.choice([0.5, 1.0, np.inf], n)))
    if kind == "simplex":
        return simplex()
    if kind == "half-space":
        return half_space(draw.normal(size=n), float(draw.normal()))
    return polyhedron(draw.normal(size=(3, n)), np.abs(draw.normal(size=3)))


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(["box", "simplex", "half-space", "polyhedron"]), seed=st.integers(0, 10**6))
def test_the_step_is_that_of_a_qp_solver(kind: str, seed: int) -> None:
    """The nearest direction to ∇f within the set that reaches φ is d(∇f + λ∇q̂)."""
    draw = np.random.default_rng(seed)
    n, rate = int(draw.integers(2, 6)), float(draw.choice([0.05, 0.5]))
    rule = rule_of(kind, draw, n)
    x = rule(torch.from_numpy(draw.normal(size=n)))
    f, q = torch.from_numpy(draw.normal(size=n)), torch.from_numpy(draw.normal(size=n))
    own = left(x, q, rate, rule)
    phi = ETA * float(own @ own)
    lam = lam_of(x, f, q, rate, rule)
    ours = left(x, f + lam * q, rate, rule)
    assert float(q @ ours) >= phi - 1e-7 * (1 + float(q.norm() * f.norm()))
    np.testing.assert_allclose(ours.numpy(), by_qp(x, f, q, rate, rule, phi), atol=2e-5 * (1 + float(f.norm())))


@pytest.mark.parametrize("kind", ["box", "simplex", "half-space"])
def test_a_smaller_multiplier_would_not_do(kind: str) -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        rule = rule_of(kind, draw, 4)
        x = rule(torch.from_numpy(draw.normal(size=4)))
        f, q = torch.from_numpy(draw.normal(size=4)), torch.from_numpy(draw.normal(size=4))
        own = left(x, q, 0.1, rule)
        phi, lam = ETA * float(own @ own), lam_of(x, f, q, 0.1, rule)
        if lam > 0:
            assert float(q @ left(x, f + (1 - 1e-6) * lam * q, 0.1, rule)) < phi
        assert float(q @ left(x, f + (1 + 1e-6) * lam * q, 0.1, rule)) >= phi


def test_far_from_all_bounds_it_is_the_formula_of_the_paper() -> None:
    draw = torch.Generator().manual_seed(0)
    for rule in (box(-1e6, 1e6), half_space(tensor(1, 1, 1, 1), 1e6), ball(1e6), None):
        f, q = (torch.randn(4, generator=draw, dtype=torch.float64) for _ in range(2))
        products = euclidean(Pair((), (f,)), Pair((), (q,)))
        found = bounded(torch.zeros(4, dtype=torch.float64), f, q, 0.1, rule)
        for kind in ("norm", "gap"):
            gap = tensor(0.7).squeeze()
            expected = multiplier(products, barrier(kind, ETA, products, gap))
            assert float(found.multiplier(kind, ETA, gap)) == pytest.approx(float(expected), rel=1e-9)
        assert float(found.balance()[1]) == pytest.approx(float(kkt_gradient(products)), rel=1e-9)


def test_an_entry_at_its_bound_takes_no_part() -> None:
    """θ₁ is free; θ₂ is at 0 and wants to go below: λ is that of θ₁ alone."""
    f, q = tensor(-1, 5), tensor(0.5, 3)
    alone = lam_of(tensor(1), f[:1], q[:1], 0.1, None)
    assert lam_of(tensor(1, 0), f, q, 0.1, box(tensor(-torch.inf, 0), torch.inf)) == pytest.approx(alone, rel=1e-12)


def test_nothing_is_searched_where_no_more_bounds_become_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """λ is then that of the search: bit for bit if all entries are free, to rounding if one is held from λ = 0 on."""
    held = box(tensor(-torch.inf, -torch.inf, -torch.inf, -torch.inf, 0), torch.inf)
    at = torch.tensor([4])
    cases = [(x, f, q, box(-1e6, 1e6)) for x, f, q in many(20)]
    cases += [(x.index_fill(0, at, 0), f.index_fill(0, at, 5), q.index_fill(0, at, 3), held) for x, f, q in many(20)]

    def found() -> Tensor:
        made = [bounded(x, f, q, 0.1, rule) for x, f, q, rule in cases]
        return torch.stack([torch.stack([x.multiplier("norm", ETA, torch.zeros(())), *x.balance()]) for x in made])

    searches, search, at_once = Counter[str](), Bounded._search, Bounded._at

    def counted(*given: Any) -> Tensor:
        searches["of λ"] += 1
        return search(*given)

    monkeypatch.setattr(Bounded, "_search", counted)
    quick = found()
    assert not searches
    monkeypatch.setattr(Bounded, "_at", lambda *given: at_once(*given)._replace(noise=tensor(-1).squeeze()))
    slow = found()
    assert searches["of λ"] == int((quick[:, :2] > 0).sum()) > len(cases)
    assert quick[:20].equal(slow[:20])
    torch.testing.assert_close(quick, slow, rtol=1e-14, atol=1e-14)


def test_a_bound_that_f_would_leave_is_held() -> None:
    """θ is at 0, where −g_θ holds it; f pulls it up, and λ = −f/q is the smallest that does not let it go."""
    for rule in (box(0, 1), half_space(tensor(-1), 0.0)):
        found = bounded(tensor(0), tensor(-2), tensor(0.5), 0.1, rule)
        lam, rest = found.balance()
        assert float(lam) == pytest.approx(4, rel=1e-6)
        assert float(rest) == pytest.approx(0, abs=1e-15)
        assert float(found.multiplier("norm", ETA, torch.zeros(()))) == pytest.approx(4, rel=1e-6)


def test_more_than_the_set_allows_is_lowered_to_it() -> None:
    """θ can fall by 0.1, and the gap asks for more: λ is the smallest that takes all of it."""
    x, f, q = tensor(0.1), tensor(-1), tensor(1)
    assert float(bounded(x, f, q, 0.1, box(0, 1)).multiplier("gap", ETA, tensor(50).squeeze())) == pytest.approx(2)
    other = float(bounded(x, f, q, 0.1, half_space(tensor(-1), 0.0)).multiplier("gap", ETA, tensor(50).squeeze()))
    assert other == pytest.approx(2, rel=0.02)


def test_the_measure_is_zero_only_where_a_multiplier_balances() -> None:
    inside = bounded(tensor(0.5, 0.5), tensor(1, -1), tensor(-2, 2), 0.1, box(0, 1))
    assert float(inside.balance()[1]) == 0
    at_bound = bounded(tensor(0.5, 0), tensor(1, 3), tensor(-2, 2), 0.1, box(0, 1))
    assert float(at_bound.balance()[1]) == 0
    neither = bounded(tensor(0.5, 0.5), tensor(1, 3), tensor(-2, 2), 0.01, box(0, 1))
    assert float(neither.balance()[1]) == pytest.approx(10, rel=1e-12)


def many(count: int) -> Sequence[tuple[Tensor, Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        x, f, q = (torch.randn(5, generator=draw, dtype=torch.float64) for _ in range(3))
        made.append((x.clamp(0, 1), f, q))
    return made


@pytest.mark.parametrize("rule", [box(0, 1), simplex(), ball(0.5)], ids=["box", "simplex", "ball"])
def test_it_is_the_same_within_vmap(rule: Callable[[Tensor], Tensor]) -> None:
    """There no search can end early."""
    cases = [(rule(x), f, q) for x, f, q in many(6)]

    def lam(x: Tensor, f: Tensor, q: Tensor) -> Tensor:
        return bounded(x, f, q, 0.1, rule).multiplier("norm", ETA, torch.zeros(()))

    found = vmap(lam)(*(torch.stack(each) for each in zip(*cases, strict=True)))
    torch.testing.assert_close(found, torch.stack([lam(*case) for case in cases]), rtol=1e-8, atol=0)


def test_in_the_metric_of_the_step_sizes_the_step_taken_reaches_it() -> None:
    """⟨∇q̂, S d⟩ ≥ φ = η⟨d_q, S d_q⟩ with step sizes of their own for two tensors, one of which is in a box."""
    metric = Metric((2.0,), (0.1,))
    for x, f, q in many(10):
        point, df, dq = (Pair((each[:2],), (each[2:],)) for each in (x, f, q))
        sets = (Rules((box(0, 1),)), Rules((None,)))
        found = Bounded(point, df, dq, metric, sets, relative(metric))
        lam = found.multiplier("norm", ETA, torch.zeros(()))
        shares = torch.tensor([20.0, 20.0, 1.0, 1.0, 1.0], dtype=torch.float64)
        rates = 0.1 * shares

        def reached(direction: Tensor, x: Tensor = x, rates: Tensor = rates) -> Tensor:
            moved = x - rates * direction
            return (x - torch.cat([moved[:2].clamp(0, 1), moved[2:]])) / rates

        own, step = reached(q), reached(f + lam * q)
        phi = ETA * float((shares * own * own).sum())
        assert float((shares * q * step).sum()) >= phi - 1e-9
        if float((shares * q * reached(f)).sum()) < phi:
            assert float((shares * q * step).sum()) == pytest.approx(phi, rel=1e-9)


def test_without_sets_weights_are_those_of_the_weighted_products() -> None:
    metric = Metric((2.0,), (0.1,))
    for x, f, q in many(5):
        point, df, dq = (Pair((each[:2],), (each[2:],)) for each in (x, f, q))
        products = weighted(df, dq, metric)
        found = Bounded(point, df, dq, metric, (Rules((None,)), Rules((None,))), relative(metric))
        expected = multiplier(products, barrier("norm", ETA, products, torch.zeros(())))
        torch.testing.assert_close(found.multiplier("norm", ETA, torch.zeros(())), expected)


def test_float32_knows_its_bounds_and_a_projection_of_your_own() -> None:
    """0.1 is no float32 number: an entry at the bound is there all the same."""
    x, f, q = (torch.tensor(each, dtype=torch.float32) for each in ([0.1], [1.0], [-2.0]))
    for rule in (box(0.0, 0.1), lambda y: y.clamp(0.0, 0.1)):
        found = bounded(x, f, q, 0.01, rule)
        assert float(found.of_f.fall) == pytest.approx(-2, rel=1e-5)
        assert float(found.multiplier("norm", ETA, torch.zeros(()))) == pytest.approx(0.5, rel=1e-3)


def test_one_set_for_all_tensors_of_a_variable() -> None:
    x, f, q = many(1)[0]
    x = simplex()(x)
    point, df, dq = (Pair((), (each[:2], each[2:])) for each in (x, f, q))
    rules = Rules((None, None), joint(simplex()))
    found = Bounded(point, df, dq, Metric((), (0.1, 0.1)), (Rules(()), rules)).multiplier("norm", ETA, torch.zeros(()))
    assert float(found) == pytest.approx(lam_of(x, f, q, 0.1, simplex()), rel=1e-9)


def test_a_variable_that_does_not_move_leaves_a_finite_multiplier() -> None:
    point, df, dq = (Pair((tensor(each),), (tensor(1),)) for each in (0.5, -1.0, 2.0))
    for metric in (Metric((0.0,), (0.1,)), Metric((0.0,), (0.0,))):
        found = Bounded(point, df, dq, metric, (Rules((box(0, 1),)), Rules((None,))))
        assert torch.isfinite(found.multiplier("norm", ETA, torch.zeros(())))
