"""The worth of v against a closed form; scales; starts and moves within the sets."""

import pytest
import torch

from bome import AutogradOracle, Batches, Problem, box
from bome.certificate.looks import Looks, Meter
from bome.certificate.probe import SIGMA, Probe
from bome.variable import Projections

F64 = torch.float64


def _probe(v: float, theta: float, project: Projections | None = None, unit: float = 1.0) -> Probe:
    """f = ½(θ − 1)² + ½v², g = ½ unit (θ − v)²."""
    problem = Problem(
        lambda v, t, b: (0.5 * (t - 1).square() + 0.5 * v.square()).sum(),
        lambda v, t, b: 0.5 * unit * (t - v).square().sum(),
        torch.tensor([v], dtype=F64), torch.tensor([theta], dtype=F64), project_v=project, project_theta=project,
    )  # fmt: skip
    looks = Looks(AutogradOracle(problem), Batches(), Meter())
    return Probe(looks, problem.point)


@pytest.mark.parametrize("v", [0.2, 0.5, 0.9])
def test_the_worth_of_v_and_its_gradient_are_those_of_the_closed_form(v: float) -> None:
    """With s = σ unit: y = (1 + s v)/(1 + s), ψ = ½v² + ½ s/(1 + s) (1 − v)², ψ' = v − s/(1 + s) (1 − v)."""
    probe = _probe(v, 0.0)
    s = probe.sigma
    found = probe.worth(probe.point.v, [probe.point.theta])
    share = s / (1 + s)
    assert found.value == pytest.approx(0.5 * v * v + 0.5 * share * (1 - v) ** 2, rel=1e-5)
    assert float(found.y[0]) == pytest.approx((1 + s * v) / (1 + s), abs=1e-3)
    assert float(found.z.x[0]) == pytest.approx(v, abs=1e-3)
    assert float(found.grad[0]) == pytest.approx(v - share * (1 - v), abs=0.05)


def test_sigma_follows_the_units_of_g() -> None:
    assert _probe(0.5, 0.5, unit=1e-3).sigma == pytest.approx(1e3 * _probe(0.5, 0.5).sigma)
    assert SIGMA >= 100


def test_from_a_corner_scales_are_measured_on_the_side_that_is_within() -> None:
    """All entries stand at the upper bound; the spread is not 0."""
    probe = _probe(1.0, 1.0, box(-1, 1))
    assert probe.scales.g > 1e-4
    assert probe.scales.f > 1e-2


def test_starts_and_moves_stay_within_their_sets_and_are_as_long_as_said() -> None:
    probe = _probe(0.9, 0.9, box(-1, 1))
    assert [abs(float(probe.fresh(radius)[0])) for radius in (1e3, -1e3)] == [1.0, 1.0]
    assert float(probe.fresh(0.01)[0]) + float(probe.fresh(-0.01)[0]) == pytest.approx(1.8)
    up = (torch.ones(1, dtype=F64),)
    assert float(probe.moved(up, 0.05)[0]) == pytest.approx(0.95)
    assert float(probe.moved(up, 0.5)[0]) == 1.0


def test_where_the_set_ends_a_move_goes_on_along_its_face() -> None:
    problem = Problem(
        lambda v, t, b: v.sum() + t.sum(), lambda v, t, b: t.square().sum(),
        torch.tensor([1.0, 0.0], dtype=F64), torch.zeros(1, dtype=F64), project_v=box(-1, 1),
    )  # fmt: skip
    probe = Probe(Looks(AutogradOracle(problem), Batches(), Meter()), problem.point)
    assert probe.moved((torch.tensor([30.0, 0.1], dtype=F64),), 0.2)[0].tolist() == pytest.approx([1.0, 0.2])


def test_the_gradient_is_right_where_theta_stands_at_a_steep_bound() -> None:
    """g = ½(θ₁ − v)² + 10³ θ₂ over θ ≥ 0, f = −θ₁: F(v) = −v, and nearly all of ∇g is taken back by the set."""
    problem = Problem(
        lambda v, t, b: -t[0], lambda v, t, b: 0.5 * (t[0] - v[0]).square() + 1e3 * t[1],
        torch.ones(1, dtype=F64), torch.tensor([1.0, 0.0], dtype=F64), project_theta=box(0, 10),
    )  # fmt: skip
    probe = Probe(Looks(AutogradOracle(problem), Batches(), Meter()), problem.point)
    assert float(probe.worth(probe.point.v, [probe.point.theta]).grad[0]) == pytest.approx(-1.0, abs=0.05)


def test_an_end_of_the_descent_of_g_that_is_too_early_makes_no_v_worth_more_than_it_is() -> None:
    """From a far start 60 steps do not reach θ*(v) = v in a valley; ψ is not below the f found at the lower end."""
    bend = torch.logspace(0, 6, 8, dtype=F64)
    problem = Problem(
        lambda v, t, b: 0.5 * (t - 1).square().sum(), lambda v, t, b: 0.5 * (bend * (t - v).square()).sum(),
        torch.full((8,), 1e4, dtype=F64), torch.zeros(8, dtype=F64),
    )  # fmt: skip
    probe = Probe(Looks(AutogradOracle(problem), Batches(), Meter()), problem.point)
    worth = probe.worth(probe.point.v, [probe.point.theta])
    assert worth.value >= 0
    assert worth.z.value <= float(problem.inner(problem.point.v[0], worth.y[0], None))
