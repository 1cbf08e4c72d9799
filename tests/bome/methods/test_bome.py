"""BOME: λ, the barrier and the cost; Algorithm 1 itself is repeated in tests/reference."""

from typing import Any

import pytest
import torch

from bome import BOME, AutogradOracle, GradientDescent
from bome.core.barrier import Metric
from bome.core.trees import dot
from bome.errors import ProblemError
from bome.problem import Batches
from tests.support.samples import bome, direction, toy


@pytest.mark.parametrize("phi", ["norm", "gap"])
@pytest.mark.parametrize("eta", [0.1, 0.9])
def test_the_direction_decreases_q_at_least_as_the_barrier_asks(phi: Any, eta: float) -> None:
    """⟨∇q̂, δ⟩ ≥ φ, with equality where λ > 0; θ^(T) by hand."""
    problem = toy()
    v, theta = (x[0] for x in problem.point)
    matrix, curvature = torch.tensor([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]]).double(), torch.tensor([1.0, 2.0]).double()
    end = theta
    for _ in range(5):
        end = end - 0.1 * curvature * (end - matrix @ v)
    dq_v = -matrix.T @ (curvature * (theta - matrix @ v)) + matrix.T @ (curvature * (end - matrix @ v))
    dq_theta = curvature * (theta - matrix @ v)
    step = direction(AutogradOracle(problem), bome(5, eta=eta, phi=phi), Batches())
    inner = dq_v @ step.direction.v[0] + dq_theta @ step.direction.theta[0]
    square = dq_v @ dq_v + dq_theta @ dq_theta
    assert step.info.q is not None
    assert step.info.lam is not None
    bound = eta * (square if phi == "norm" else step.info.q)
    if float(step.info.lam) > 0:
        torch.testing.assert_close(inner, bound, rtol=1e-10, atol=1e-12)
    else:
        assert float(inner) >= float(bound)
    assert step.size is not None
    torch.testing.assert_close(step.size, dot(step.direction.v, step.direction.v) + dot(*[step.direction.theta] * 2))


def test_with_the_metric_of_the_steps_the_move_itself_meets_the_barrier() -> None:
    problem, metric = toy(), Metric((0.5,), (0.01,))
    oracle = AutogradOracle(problem)
    plain, weighted = (
        BOME(GradientDescent(0.1, 3), geometry=each).step(oracle, problem.point, {}, Batches(), metric)
        for each in ("euclidean", "steps")
    )
    assert plain.info.lam != weighted.info.lam
    torch.testing.assert_close(plain.info.q, weighted.info.q)


def test_fresh_batches_are_one_for_each_inner_step() -> None:
    assert bome(7).inner_batches == 1
    assert bome(7, draw="fresh").inner_batches == 7
    assert bome(7, **BOME.variants["fresh"]).inner_batches == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eta": 0.0}, r"eta \(η\) must be a positive number, got 0.0"),
        ({"phi": "square"}, "phi must be 'norm' .* or 'gap'"),
        ({"geometry": "round"}, "geometry must be 'euclidean' or 'steps'"),
        ({"draw": "two"}, "draw must be 'one' .* or 'fresh'"),
        ({"eps": -1.0}, "eps must be a positive number"),
        ({"inner": 0.1}, r"inner must be an inner map such as GradientDescent\(lr=0.1\), got 0.1"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        BOME(**{"inner": GradientDescent(0.1), **settings})
