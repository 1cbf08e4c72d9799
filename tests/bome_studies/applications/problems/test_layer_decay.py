"""Decay of each layer: the penalty by hand, and the judge against the library's own refit."""

import torch

import bome
from bome_studies.applications.problems.layer_decay import layer_decay
from bome_studies.applications.problems.pictures import pictures


def test_each_layer_has_its_own_penalty() -> None:
    problem = layer_decay(pictures("digits"), 0).problem
    batch = layer_decay(pictures("digits"), 0).data(0).inner.next()
    theta, low = problem.theta.value, torch.tensor([-200.0] * 3)
    for layer in range(3):
        v = low.clone()
        v[layer] = 0.0
        more = problem.inner(v, theta, batch) - problem.inner(low, theta, batch)
        torch.testing.assert_close(more, theta[2 * layer].weight.square().sum(), rtol=1e-4, atol=1e-4)


def test_the_judge_agrees_with_a_refit_of_the_library() -> None:
    """The same start, the same stream (seed 2 of this application) and as many steps: two programs for one number."""
    pool = pictures("digits")
    application = layer_decay(pool, 0)
    refit = bome.refit(
        application.problem, bome.GradientDescent(0.1, pool.scaled(1000)), data=application.data(2)
    )  # fmt: skip
    assert abs(application.judge().F / refit.F - 1) < 1e-4


def test_the_judge_sees_v_and_not_the_live_model() -> None:
    application = layer_decay(pictures("digits"), 0)
    before = application.judge()
    with torch.no_grad():
        for leaf in application.problem.theta.leaves:
            leaf.zero_()
    assert application.judge() == before
    with torch.no_grad():
        application.problem.v.leaves[0].fill_(0.0)
    assert application.judge() != before
