"""Optimistic gradient descent-ascent on the bilinear problem: its closed form and the published run."""

import cmath

import pytest
import torch

from bome import Problem, Stepper
from bome.errors import ProblemError
from bome.methods.base import Method
from bome.methods.ogda import OGDA
from bome.tasks import minimax

XI = 0.05


def _stepper(problem: Problem, method: Method) -> Stepper:
    return Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=XI), torch.optim.SGD(problem.theta.leaves, lr=XI)
    )


def _point(problem: Problem) -> complex:
    return complex(float(problem.point.v[0]), float(problem.point.theta[0]))


def test_ogda_follows_its_closed_form() -> None:
    """u_{k+1} = u_k + iξ(2u_k − u_{k−1}) with u_{−1} = u_0: u_k = c₁μ₁^k + c₂μ₂^k, μ the roots of μ² = (1 + 2iξ)μ − iξ.

    c₁ + c₂ = u_0 and c₁/μ₁ + c₂/μ₂ = u_0. The larger root has modulus 1 − ξ²/2 + O(ξ⁴), so it shrinks slowly.
    """
    problem = minimax("paper").problem
    stepper = _stepper(problem, OGDA())
    start = _point(problem)
    root = cmath.sqrt((1 + 2j * XI) ** 2 - 4j * XI)
    big, small = ((1 + 2j * XI + s * root) / 2 for s in (1, -1))
    assert abs(big) == pytest.approx(1 - XI**2 / 2, abs=XI**4)
    c = start * (1 / small - 1) / (1 / small - 1 / big)
    for k in range(1, 501):
        stepper.step()
        assert _point(problem) == pytest.approx(c * big**k + (start - c) * small**k, abs=1e-12)
    assert stepper.counts == {"g": 500}


def test_the_published_form_reaches_1e_11_on_minimax() -> None:
    """The authors' run: 2000 steps of 0.05 from (4, 4), with a record after every tenth step.

    Transcribed: the past point is twice the start at first, v moves before θ.
    """
    problem = minimax().problem
    stepper = _stepper(problem, OGDA(**OGDA.variants["published"]))
    v = theta = 4.0
    past_v, past_theta = 2 * v, 2 * theta
    for k in range(2000):
        stepper.step()
        v = v - 2 * XI * theta + XI * past_theta
        theta = theta + 2 * XI * v - XI * past_v
        if k % 10 == 0:
            past_v, past_theta = v, theta
        assert _point(problem) == pytest.approx(complex(v, theta), abs=1e-13)
        if k == 0:
            assert _point(problem) == 4 + 4j  # the first step is vain
    assert float(problem.point.v[0]) == pytest.approx(2.456e-11, rel=1e-3)
    assert float(problem.point.theta[0]) == pytest.approx(6.741e-12, rel=1e-3)
    assert stepper.counts == {"g": 4000}


def test_unfit_settings_are_refused() -> None:
    with pytest.raises(ProblemError, match="form"):
        OGDA("optimistic")  # type: ignore[arg-type]
