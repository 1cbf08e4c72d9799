"""MRBO: against a NumPy transcription of the paper's recursion and of what the published code comes down to; cost."""

import numpy as np
import pytest
import torch
from torch.optim import SGD

from bome import Batches, PerSample, Problem, Stepper
from bome.errors import ProblemError, UnsupportedError
from bome.methods.mrbo import MRBO
from tests.support.problems import bed, finite_sum, full
from tests.support.sums import Array, batches_of, estimate, g_theta, in_numpy

XI_V, XI_THETA, ETA = 0.05, 0.2, 0.25


def driven(method: MRBO, steps: int) -> tuple[list[Batches], tuple[Array, Array], list[tuple[Array, Array]]]:
    """The batches drawn, the start, and (v, θ) after every step."""
    sums, rng = finite_sum(), np.random.default_rng(11)
    problem = sums.problem
    start = problem.point.v[0].numpy().copy(), problem.point.theta[0].numpy().copy()
    stepper = Stepper(problem, method, SGD(problem.v.leaves, XI_V), SGD(problem.theta.leaves, XI_THETA))
    drawn, points = [], []
    for _ in range(steps):
        drawn.append(batches_of(sums, method, rng))
        stepper.step_on(drawn[-1])
        points.append((problem.point.v[0].numpy().copy(), problem.point.theta[0].numpy().copy()))
    return drawn, start, points


def estimates(method: MRBO, batches: Batches, v: Array, theta: Array) -> tuple[Array, Array]:
    """∇_θ g and ĥ on the batches of a step."""
    inner, (outer,) = in_numpy(batches.inner), in_numpy(batches.outer)
    hessians = inner * method.Q if method.draw == "one" else inner[:-1]
    h = estimate(v, theta, hessians, inner[-1], outer, ETA, method.series == "published")
    return g_theta(v, theta, inner[-1]), h


@pytest.mark.parametrize("draw", ["independent", "one"])
def test_it_is_the_recursion_of_the_paper(draw: str) -> None:
    """η_k = d/(m+k)^{1/3}, α_{k+1} = c1 η_k², β_{k+1} = c2 η_k², capped at 1; u_0 and w_0 are plain estimates."""
    d, m, c1, c2 = 0.9, 2.0, 0.8, 2.5
    method = MRBO(Q=2, neumann_lr=ETA, d=d, m=m, c1=c1, c2=c2, draw=draw)  # type: ignore[arg-type]
    drawn, (v, theta), points = driven(method, steps=8)
    v_old, theta_old, u, w = v, theta, np.zeros(4), np.zeros(3)
    alpha = beta = 1.0
    seen = []
    for k, batches in enumerate(drawn):
        (u1, w1), (u0, w0) = estimates(method, batches, v, theta), estimates(method, batches, v_old, theta_old)
        u, w = u1 + (1 - beta) * (u - u0), w1 + (1 - alpha) * (w - w0)
        eta = d / (m + k) ** (1 / 3)
        v_old, theta_old, v, theta = v, theta, v - XI_V * eta * w, theta - XI_THETA * eta * u
        seen.append((alpha, beta))
        alpha, beta = min(1.0, c1 * eta**2), min(1.0, c2 * eta**2)
        np.testing.assert_allclose(points[k][0], v, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(points[k][1], theta, rtol=1e-12, atol=1e-13)
    assert min(a for a, _ in seen) < 0.5  # the schedule has had an effect
    assert min(b for _, b in seen) < 1.0


def test_as_published_it_is_an_exponential_average() -> None:
    """u ← βg + (1 − β)u and w ← αĥ + (1 − α)w with α = β = 0.9 from the second step on, η = 1."""
    method = MRBO(Q=2, neumann_lr=ETA, **MRBO.variants["published"])
    drawn, (v, theta), points = driven(method, steps=8)
    u, w = np.zeros(4), np.zeros(3)
    for k, batches in enumerate(drawn):
        share = 0.9 if k else 1.0
        u1, w1 = estimates(method, batches, v, theta)
        u, w = share * u1 + (1 - share) * u, share * w1 + (1 - share) * w
        v, theta = v - XI_V * w, theta - XI_THETA * u
        np.testing.assert_allclose(points[k][0], v, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(points[k][1], theta, rtol=1e-12, atol=1e-13)


def test_on_the_full_batch_the_recursion_has_no_error_to_reduce() -> None:
    """u_k = ∇_θ g and w_k = ĥ at (v_k, θ_k), whatever α and β are: the direction is η_k times those."""
    q, method = bed(), MRBO(Q=3, inner_lr=0.25)
    stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1), SGD(q.problem.theta.leaves, 0.2))
    for k in range(6):
        v, theta = q.v.clone(), q.theta.clone()
        stepper.step_on(full(method))
        eta = (1 + k) ** (-1 / 3)
        z = 0.25 * torch.stack([q.power(0.25, i) @ (theta - q.a) for i in range(4)]).sum(0)
        h = v - q.b + q.A.T @ q.H @ z
        torch.testing.assert_close(q.v, v - 0.1 * eta * h, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(q.theta, theta - 0.2 * eta * q.H @ (theta - q.A @ v), rtol=1e-12, atol=1e-12)


def test_a_step_costs_what_is_declared() -> None:
    for options, n, each in (({}, 2, 4), ({"draw": "one"}, 2, 1), (MRBO.variants["published"], 1, 1)):
        q, method = bed(), MRBO(**options)
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1), SGD(q.problem.theta.leaves, 0.1))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": n * each, "f": n, "hvp": 3 * n, "xvp": n}
        assert stepper.counts == {kind: 3 * number for kind, number in method.cost.items()}
        assert (method.inner_batches, method.outer_batches) == (each, 1)


def test_what_cannot_work_is_refused() -> None:
    for bad in ({"d": 0.0}, {"m": -1.0}, {"Q": 0.5}, {"recursion": "other"}, {"alpha": 0.0}, {"beta": 1.5}):
        with pytest.raises(ProblemError):
            MRBO(**bad)
    table = PerSample(3, dtype=torch.float64)
    theta = torch.ones((), dtype=torch.float64)
    problem = Problem(lambda v, t, b: t.square(), lambda v, t, b: (v * t).sum(), table, theta)
    with pytest.raises(UnsupportedError, match="mrbo cannot solve this problem: it keeps estimates of all of v"):
        Stepper(problem, MRBO(), SGD([table.values], 0.1), SGD([theta], 0.1))
