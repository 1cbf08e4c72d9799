"""Variant `published` against the authors' multiplier λ = max(η − ⟨∇f, ∇q̂⟩ / (‖∇q̂‖² + ε), 0), transcribed."""

import pytest
from torch.optim import SGD

from bome import Stepper
from bome.runs.plan import plan

XI, LIMIT, EPS = 0.05, 10.0, 1e-8


def authors_minimax(eta: float, inner_steps: int, steps: int) -> tuple[float, float]:
    """(θ, v) after their run on f = vθ, g = −vθ from (4, 4), everything clamped to [−10, 10]."""

    def clamp(x: float) -> float:
        return max(-LIMIT, min(LIMIT, x))

    v = theta = 4.0
    for _ in range(steps):
        ahead = theta
        for _ in range(inner_steps):
            ahead = clamp(ahead + XI * v)
        q_v, q_theta, f_v, f_theta = ahead - theta, -v, theta, v
        lam = max(eta - (f_v * q_v + f_theta * q_theta) / (q_v**2 + q_theta**2 + EPS), 0.0)
        v, theta = clamp(v - XI * (f_v + lam * q_v)), clamp(theta - XI * (f_theta + lam * q_theta))
    return theta, v


@pytest.mark.parametrize(("eta", "known"), [(0.5, (-3.9e-5, 1.0e-4)), (0.9, (7.7e-6, -2.2e-5))])
def test_published_bome_repeats_the_authors_minimax_run(eta: float, known: tuple[float, float]) -> None:
    """500 steps with T = 10; near the saddle ε = 1e-8 is as large as ‖∇q̂‖², so where it stands matters."""
    made = plan("minimax", "bome:published", {"eta": eta, "inner_steps": 10})
    problem = made.task.problem
    stepper = Stepper(problem, made.method, SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, XI))
    for _ in range(500):
        stepper.step()
    found = float(problem.theta.leaves[0].squeeze()), float(problem.v.leaves[0].squeeze())
    assert found == pytest.approx(authors_minimax(eta, 10, 500), rel=1e-9)
    assert found == pytest.approx(known, rel=0.05)
