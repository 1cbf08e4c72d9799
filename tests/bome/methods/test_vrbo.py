"""VRBO: against a NumPy transcription of the paper's loop and of the published one; telescoping; batches and cost."""

import numpy as np
import pytest
import torch
from torch.optim import SGD

from bome import Batches, GradientDescent, PerSample, Problem, Stepper
from bome.errors import ProblemError, UnsupportedError
from bome.methods.stocbio import StocBiO
from bome.methods.vrbo import VRBO
from tests.support.problems import bed, finite_sum, full
from tests.support.sums import Array, Quadratic, batches_of, estimate, g_theta, in_numpy

XI, ALPHA, ETA = 0.05, 0.2, 0.25


class Groups:
    """The batches of a step in groups: those of the t-th difference, then those of the i-th part of a refresh."""

    def __init__(self, method: VRBO, batches: Batches) -> None:
        self.method, self.outer, self.inner = method, in_numpy(batches.outer), in_numpy(batches.inner)

    def __call__(self, i: int, v: Array, theta: Array) -> tuple[Array, Array]:
        """∇_θ g and ĥ on the i-th group."""
        Q = self.method.Q  # noqa: N806
        if self.method.draw == "one":
            group: list[Quadratic] = [self.inner[i]] * (Q + 1)
        else:
            group = self.inner[i * (Q + 1) : (i + 1) * (Q + 1)]
        published = self.method.series == "published"
        h = estimate(v, theta, group[:Q], group[-1], self.outer[i], ETA, published)
        return g_theta(v, theta, group[-1]), h


def papers_loop(method: VRBO, groups: list[Groups], v: Array, theta: Array) -> list[tuple[Array, Array]]:
    """Algorithm 2: (v_{k+1}, θ_{k+1}) for k = 0, 1, ...; the inner loop of k has the batches of our step k + 1."""
    T, points = method.inner.steps, []  # noqa: N806
    u = w = np.zeros(0)
    for k in range(len(groups) - 1):
        if k % method.p == 0:
            parts = [groups[k](T + 1 + i, v, theta) for i in range(method.large)]
            u = np.mean([part[0] for part in parts], axis=0)
            w = np.mean([part[1] for part in parts], axis=0)
        v_old, theta_old, v = v, theta, v - XI * w
        for t in range(T + 1):
            (u1, w1), (u0, w0) = groups[k + 1](t, v, theta), groups[k + 1](t, v_old, theta_old)
            u, w = u + u1 - u0, w + w1 - w0
            v_old, theta_old = v, theta
            if t < T:
                theta = theta - ALPHA * u
        points.append((v, theta))
    return points


def published_loop(method: VRBO, groups: list[Groups], v: Array, theta: Array) -> list[tuple[Array, Array]]:
    """As coded: refresh, difference in v, θ-step, T times (difference in θ, θ-step), v-step."""
    v_old, points = v, []
    u = w = np.zeros(0)
    for k, group in enumerate(groups):
        if k % method.p == 0:
            u, w = group(method.inner.steps + 1, v, theta)
        (u1, w1), (u0, w0) = group(0, v, theta), group(0, v_old, theta)
        u, w = u + u1 - u0, w + w1 - w0
        new = theta - ALPHA * u
        for t in range(method.inner.steps):
            (u1, w1), (u0, w0) = group(t + 1, v, new), group(t + 1, v, theta)
            u, w = u + u1 - u0, w + w1 - w0
            theta, new = new, new - ALPHA * u
        theta, v_old, v = new, v, v - XI * w
        points.append((v, theta))
    return points


def driven(method: VRBO, steps: int) -> tuple[list[Groups], tuple[Array, Array], list[tuple[Array, Array]]]:
    """The batches drawn, the start, and (v, θ) after every step."""
    sums, rng = finite_sum(), np.random.default_rng(7)
    problem = sums.problem
    start = problem.point.v[0].numpy().copy(), problem.point.theta[0].numpy().copy()
    stepper = Stepper(problem, method, SGD(problem.v.leaves, XI))
    groups, points = [], []
    for _ in range(steps):
        batches = batches_of(sums, method, rng)
        stepper.step_on(batches)
        groups.append(Groups(method, batches))
        points.append((problem.point.v[0].numpy().copy(), problem.point.theta[0].numpy().copy()))
    return groups, start, points


@pytest.mark.parametrize("draw", ["independent", "one"])
def test_it_is_the_loop_of_the_paper(draw: str) -> None:
    """Our step k ends the paper's inner loop of k − 1, so θ of step k + 1 and v of step k belong to its iteration k."""
    inner = GradientDescent(ALPHA, 3)
    method = VRBO(inner, Q=2, neumann_lr=ETA, p=3, large=2, draw=draw)  # type: ignore[arg-type]
    groups, (v, theta), points = driven(method, steps=8)
    np.testing.assert_array_equal(points[0][1], theta)
    for k, (v_k, theta_k) in enumerate(papers_loop(method, groups, v, theta)):
        np.testing.assert_allclose(points[k][0], v_k, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(points[k + 1][1], theta_k, rtol=1e-12, atol=1e-13)


def test_as_published_it_is_the_loop_of_the_code() -> None:
    method = VRBO(GradientDescent(ALPHA, 3), Q=2, neumann_lr=ETA, **VRBO.variants["published"])
    groups, (v, theta), points = driven(method, steps=8)
    for found, expected in zip(points, published_loop(method, groups, v, theta), strict=True):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-13)


def test_on_the_full_batch_the_differences_telescope_and_it_is_stocbio() -> None:
    """From the second step on: θ by T steps at the new v, then ĥ there. The first has no inner loop."""
    one, other = bed(), bed()
    vrbo, stocbio = (kind(GradientDescent(0.3, 4), Q=5) for kind in (VRBO, StocBiO))
    a = Stepper(one.problem, vrbo, SGD(one.problem.v.leaves, 0.1))
    b = Stepper(other.problem, stocbio, SGD(other.problem.v.leaves, 0.1))
    a.step_on(full(vrbo))
    for leaf, value in zip(other.problem.point.v, one.problem.point.v, strict=True):
        leaf.copy_(value)
    for _ in range(7):
        a.step_on(full(vrbo))
        b.step_on(full(stocbio))
        torch.testing.assert_close(one.v, other.v, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(one.theta, other.theta, rtol=1e-11, atol=1e-12)


def test_a_period_costs_what_is_declared() -> None:
    """k = 0: `large` estimates; then 2(T+1) each, and `large` more whenever k mod p = 0."""
    for draw, each in (("independent", 4), ("one", 1)):
        inner = GradientDescent(0.3, 2)
        q, method = bed(), VRBO(inner, Q=3, p=4, large=5, draw=draw)  # type: ignore[arg-type]
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
        estimates = []
        for _ in range(9):
            before = stepper.counts.copy()
            stepper.step_on(full(method))
            spent = stepper.counts - before
            assert spent == {"g": each * spent["f"], "f": spent["f"], "hvp": 3 * spent["f"], "xvp": spent["f"]}
            estimates.append(spent["f"])
        assert estimates == [5, 6, 6, 6, 11, 6, 6, 6, 11]
        assert method.cost == {"g": each * 29, "f": 29, "hvp": 87, "xvp": 29}
        assert (method.inner_batches, method.outer_batches, method.period) == (each * 8, 8, 4)


def test_what_cannot_work_is_refused() -> None:
    for bad in ({"p": 0}, {"large": 0}, {"Q": -1}, {"order": "other"}, {"draw": "two"}, {"neumann_lr": -1.0}):
        with pytest.raises(ProblemError):
            VRBO(GradientDescent(0.1), **bad)
    table = PerSample(3, dtype=torch.float64)
    problem = Problem(
        lambda v, t, b: t.square(), lambda v, t, b: (v * t).sum(), table, torch.ones((), dtype=torch.float64)
    )
    with pytest.raises(UnsupportedError, match="vrbo cannot solve this problem: it keeps estimates of all of v"):
        Stepper(problem, VRBO(GradientDescent(0.1)), SGD([table.values], 0.1))
