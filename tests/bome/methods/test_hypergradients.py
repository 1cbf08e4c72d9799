"""Implicit and unrolling methods against exact hypergradients on four problems: at convergence, and before."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from bome import GradientDescent
from bome.methods.aid_cg import AIDCG
from bome.methods.aid_fp import AIDFP
from bome.methods.base import Method
from bome.methods.itd import ITD
from bome.methods.reverse import Reverse
from bome.methods.stocbio import StocBiO
from tests.support.problems import EXAMPLES, Example, dense, flat, one_step, relative

Make = Callable[[float, int], Method]

SERIES: dict[str, Make] = {
    "itd": lambda lr, n: ITD(GradientDescent(lr, n)),
    "reverse": lambda lr, n: Reverse(GradientDescent(lr, n + 5), K=n),
    "aid-fp": lambda lr, n: AIDFP(GradientDescent(lr, 1), K=n),
    "stocbio": lambda lr, n: StocBiO(GradientDescent(lr, 1), Q=n - 1, draw="one"),
}
"""Methods with n terms, n being T, K, K and Q + 1, that amount to the same series at θ*(v)."""

CONVERGED: dict[str, Make] = {
    "itd": lambda lr, n: ITD(GradientDescent(lr, n)),
    "itd with momentum": lambda lr, n: ITD(GradientDescent(lr, n, momentum=0.3)),
    "reverse": lambda lr, n: Reverse(GradientDescent(lr, n), K=n),
    "aid-cg": lambda lr, n: AIDCG(GradientDescent(lr, n), K=30),
    "aid-fp": lambda lr, n: AIDFP(GradientDescent(lr, n), K=n),
    "aid-fp with momentum": lambda lr, n: AIDFP(GradientDescent(lr, n, momentum=0.3), K=n),
    "stocbio": lambda lr, n: StocBiO(GradientDescent(lr, n), Q=n),
}


@cache
def example(name: str) -> Example:
    return EXAMPLES[name]()


@cache
def differences(name: str) -> Tensor:
    return example(name).finite_differences()


def terms_for(made: Example, left: float) -> int:
    """How many terms leave this share of the error, (1 − αμ)^n."""
    return math.ceil(math.log(left) / math.log(1 - made.lr * made.mu))


def direction(name: str, make: Make, terms: int) -> Tensor:
    made = example(name)
    return one_step(made.problem, make(made.lr, terms)).direction.v[0]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("method", CONVERGED)
def test_at_convergence_the_direction_is_the_hypergradient(method: str, name: str) -> None:
    """From θ*(v) + 0.1 with as many terms as make (1 − αμ)^n = 1e-8."""
    made = EXAMPLES[name]()
    for leaf in made.problem.point.theta:
        leaf += 0.1
    step = one_step(made.problem, CONVERGED[method](made.lr, terms_for(made, 1e-8)))
    assert relative(step.direction.v[0], made.hypergradient) <= 1e-6
    assert relative(step.direction.v[0], differences(name)) <= 1e-6
    assert step.new_theta is not None
    assert relative(flat(step.new_theta), flat(example(name).problem.point.theta)) <= 1e-6


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("method", SERIES)
def test_at_the_inner_solution_the_direction_is_a_series_of_as_many_terms(method: str, name: str) -> None:
    """At θ*(v) inner steps stay there, so all derivatives are constant: f_v − αB Σ_{i<n} (I−αH)^i f_θ."""
    made = example(name)
    point = made.problem.point
    at = dense(made.problem, point.v[0], flat(point.theta))
    for terms in (1, 2, 5, 20):
        found = direction(name, SERIES[method], terms)
        assert relative(found, at.series(made.lr, terms)) <= 1e-10


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("method", SERIES)
def test_the_bias_decays_by_one_minus_alpha_mu_with_every_term(method: str, name: str) -> None:
    """The error is Σ c_i (1 − αλ_i)^n over the curvatures λ_i of g, in the end that of the smallest, μ."""
    made = example(name)
    numbers = [terms_for(made, left) for left in (1e-3, 1e-4, 1e-5)]
    errors = [relative(direction(name, SERIES[method], n), made.hypergradient) for n in numbers]
    slope = np.polyfit(numbers, np.log(errors), 1)[0]
    assert abs(slope / math.log(1 - made.lr * made.mu) - 1) <= 0.02


@pytest.mark.parametrize("name", EXAMPLES)
def test_conjugate_gradients_are_exact_with_as_many_steps_as_entries(name: str) -> None:
    made = example(name)
    n = len(flat(made.problem.point.theta))
    found = one_step(made.problem, AIDCG(GradientDescent(made.lr, 1), K=n)).direction.v[0]
    assert relative(found, made.hypergradient) <= 1e-9


@pytest.mark.parametrize("name", EXAMPLES)
def test_conjugate_gradients_decay_at_least_at_the_rate_of_the_condition_number(name: str) -> None:
    """‖z_K − z‖_H ≤ 2 ρ^K ‖z‖_H, ρ = (√κ−1)/(√κ+1); so |B(z_K − z)| ≤ 2 ρ^K ‖B H^{−1/2}‖ ‖z‖_H."""
    made = example(name)
    point = made.problem.point
    at = dense(made.problem, point.v[0], flat(point.theta))
    root = (1 / (made.lr * made.mu)) ** 0.5
    z = torch.linalg.solve(at.H, at.f_theta)
    reach = float(torch.linalg.matrix_norm(torch.linalg.solve(torch.linalg.cholesky(at.H), at.B.T), 2))
    size = float(z @ at.H @ z) ** 0.5
    for steps in range(1, len(z)):
        found = one_step(made.problem, AIDCG(GradientDescent(made.lr, 1), K=steps)).direction.v[0]
        bound = 2 * ((root - 1) / (root + 1)) ** steps * reach * size
        assert float((found - made.hypergradient).norm()) <= bound
