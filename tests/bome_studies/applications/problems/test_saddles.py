"""Saddle games: losses that add up to 0, a saddle at 0, and an adversary that does harm."""

import torch

from bome_studies.applications.problems.pictures import pictures
from bome_studies.applications.problems.saddles import adversary, attacked, bilinear, saddle


def test_the_small_games_have_their_saddle_at_zero() -> None:
    """With r = 1 the best θ for a v is Aᵀv, so that F(v) is ½‖Aᵀv‖²."""
    for build, r in ((saddle, 1.0), (bilinear, 0.0)):
        problem = build(pictures("digits"), 0).problem
        (v,), (theta,) = problem.v.leaves, problem.theta.leaves
        assert float(problem.outer(v, theta, None) + problem.inner(v, theta, None)) == 0.0
        zero = torch.zeros(5, requires_grad=True)
        slope_v, slope_theta = torch.autograd.grad(problem.outer(zero, zero, None), (zero, zero), allow_unused=True)
        assert float(slope_v.norm()) == float(slope_theta.norm()) == 0.0
        at = v.detach().clone()
        y = torch.zeros(5, requires_grad=True)
        (pull,) = torch.autograd.grad(problem.outer(at, y, None), y)  # Aᵀv
        if r:
            torch.testing.assert_close(problem.outer(at, pull, None), 0.5 * pull @ pull)
        assert abs(build(pictures("digits"), 0).judge().F - float(at.norm())) < 1e-6


def test_an_attack_stays_within_reach_and_does_harm() -> None:
    pool = pictures("digits")
    application = adversary(pool, 0)
    plain = application.by_hand["no adversary"]()
    network = torch.nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        network.bias.zero_()
    x, y = torch.tensor([[0.15, 0.0], [0.05, 0.0]]), torch.tensor([0, 0])
    assert attacked(network, x, y).test == 0.5  # a change of 0.1 turns the second row alone
    assert plain.test is not None
    assert application.judge() == adversary(pool, 0).judge()


def test_theta_has_a_change_for_each_picture_within_its_box() -> None:
    problem = adversary(pictures("digits"), 0).problem
    (theta,) = problem.theta.leaves
    assert theta.shape == (50, 64)
    (moved,) = problem.project_theta((torch.full_like(theta, 3.0),))
    assert float(moved.max()) == float(torch.tensor(0.1))
