"""Spectral projected gradients against SciPy, and the search along a direction."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from bome.nested.descent import Heading, Place, Projected, Rules, begin, descend
from tests.support.nested import vector

PRECISE = Rules(500, 1e-7)


def looking(fun: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Place]:
    def look(x: Tensor) -> Place:
        x = x.detach().requires_grad_()
        value = fun(x)
        (grad,) = torch.autograd.grad(value, x)
        return Place(x.detach(), float(value.detach()), grad)

    return look


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_scipy_does(seed: int) -> None:
    """A badly scaled convex function in a box, of whose bounds some are active."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(8, 8, generator=generator, dtype=torch.float64)
    h, b = a @ a.T + 0.05 * torch.eye(8, dtype=torch.float64), torch.randn(8, generator=generator, dtype=torch.float64)
    look = looking(lambda x: 0.5 * x @ h @ x - b @ x + 0.1 * (x**4).sum())
    region = Projected(lambda x: x.clamp(-0.5, 0.5))
    found = descend(look(torch.zeros(8, dtype=torch.float64)), region, PRECISE, 1.0, 10.0, look)

    def fun(x: np.ndarray) -> tuple[float, np.ndarray]:
        place = look(torch.from_numpy(x))
        return place.value, place.grad.numpy()

    expected = minimize(fun, np.zeros(8), jac=True, method="L-BFGS-B", bounds=[(-0.5, 0.5)] * 8, tol=1e-14)
    assert found.ended == "stationary"
    np.testing.assert_allclose(found.best[0].x.numpy(), expected.x, atol=1e-5)
    assert float(found.best[0].x.abs().max()) == 0.5


def test_a_kink_is_found_where_two_tangents_meet() -> None:
    """|x − 0.3| from afar: a parabola would creep up to the kink, tangents hit it."""
    calls = []
    plain = looking(lambda x: (x - 0.3).abs().sum())

    def look(x: Tensor) -> Place:
        calls.append(float(x))
        return plain(x)

    found = descend(look(vector(5.0)), Projected(lambda x: x), Rules(10, 1e-9), 2.0, 10.0, look)
    assert found.best[0].value < 1e-9
    assert len(calls) < 25


def test_no_step_is_longer_than_the_trust_radius_and_the_radius_grows() -> None:
    look = looking(lambda x: (x - 100).square().sum())
    region, rules = Projected(lambda x: x), Rules(3, 1e-9)
    descent = begin(look(vector(0.0)), region, rules, 1.0, 1.0)
    assert float(descent.trial) == pytest.approx(1.0)
    descent = descent.told(look(descent.trial), region, rules)
    assert float(descent.trial) == pytest.approx(5.0)


def test_a_value_that_is_not_finite_shortens_the_step() -> None:
    look = looking(lambda x: (x - x.log()).sum())
    found = descend(look(vector(0.1)), Projected(lambda x: x), Rules(60, 1e-8), 10.0, 100.0, look)
    assert float(found.best[0].x) == pytest.approx(1, abs=1e-6)


def test_a_rise_is_let_pass_for_a_while_and_the_best_is_kept() -> None:
    """Rosenbrock's valley, where the values do not fall at each step."""
    look = looking(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
    found = descend(look(vector(-1.2, 1.0)), Projected(lambda x: x), Rules(400, 1e-8), 1e-3, 10.0, look)
    values = [value for value, _ in found.past]
    assert any(b > a for a, b in pairwise(values))
    assert found.best[0].value == min(values) < 1e-8


def test_a_step_along_bent_constraints_weighs_violations() -> None:
    """In the merit function a step that leaves the set is no gain, however much the value falls."""

    class Bent:
        def heading(self, place: Place, s: float) -> Heading:
            d = -s * place.grad
            return Heading(place.x + d, d, float(place.grad @ d), np.array([4.0]))

        def change(self, heading: Heading, old: Place, new: Place) -> Tensor:
            return new.grad - old.grad

    look = looking(lambda x: x.sum())
    first = begin(look(vector(0.0))._replace(over=np.zeros(1)), Bent(), PRECISE, 1.0, 10.0)
    out = look(first.trial)._replace(over=np.array([1.0]))
    after = first.told(out, Bent(), PRECISE)
    assert after.place is first.place
    assert after.t < 1


def test_it_ends_when_steps_bring_no_gain() -> None:
    look = looking(lambda x: (x**4).sum())
    found = descend(look(vector(1.0)), Projected(lambda x: x), Rules(500, 0.0, 1e-6), 0.1, 1.0, look)
    assert found.ended == "no gain"


def test_steps_do_not_grow_without_end_where_nothing_moves() -> None:
    """In a corner every step is 0 long, and rounding must not decide where it goes."""
    look = looking(lambda x: -x.sum())
    descent = begin(look(vector(0.0, 0.0)), Projected(lambda x: x.clamp(-1, 1)), Rules(9, 0.0), 1e300, 10.0)
    assert descent.s * 2**0.5 == pytest.approx(1e7)
