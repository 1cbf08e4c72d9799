"""ANIL: heads in closed form are where g is flat, and training goes there."""

import torch

import bome
from bome_studies.applications.problems.anil import RIDGE, anil, errors, features, ridge, waves
from bome_studies.applications.problems.pictures import pictures


def test_ridge_is_the_minimum_of_g() -> None:
    application, tasks = anil(pictures("digits"), 0), waves(0, 25)
    v = application.problem.v.value
    heads = ridge(v, tasks).detach().requires_grad_()
    g = application.problem.inner(v, heads, None)
    (slope,) = torch.autograd.grad(g, heads)
    assert float(slope.norm()) < 1e-3
    torch.testing.assert_close(g, errors(v, heads, tasks.x, tasks.y).sum() + RIDGE * heads.square().sum())


def test_steps_on_g_lower_g_towards_the_minimum() -> None:
    application = anil(pictures("digits"), 0)
    refit = bome.refit(application.problem, bome.GradientDescent(0.05, 500))
    v, tasks = application.problem.v.value, waves(0, 25)
    least = application.problem.inner(v, ridge(v, tasks), None).item()
    assert least <= refit.g < 1.5 * least


def test_features_have_a_constant_and_new_tasks_are_others() -> None:
    v = anil(pictures("digits"), 0).problem.v.value
    assert features(v, torch.zeros(3, 7)).shape == (3, 7, 41)
    assert torch.equal(features(v, torch.zeros(3, 7))[..., -1], torch.ones(3, 7))
    assert not torch.equal(waves(0, 25).x, waves(1_000_000, 25).x)
    assert anil(pictures("digits"), 0).judge() == anil(pictures("digits"), 0).judge()
