"""Gates of features: penalties that are learned from folds."""

import numpy as np
import pytest
import torch
from scipy import sparse

from bome.estimators.gates import LOWEST, WIDEST, Job, learn_gates, penalties, warm_up
from bome.estimators.rows import folds


def squares(out: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 0.5 * (out[:, 0] - targets) ** 2


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_gate_of_a_feature_of_noise_closes(form: object) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((120, 4))
    y = (2 * x[:, 0] + 0.1 * random.standard_normal(120)).astype(np.float32)
    job = Job(form(x), y, 1, squares)  # type: ignore[operator]
    gates = learn_gates(job, np.arange(4), 1e-2, list(folds(np.arange(120), 3)), 40)
    assert gates.values[0] == gates.values.max()
    assert gates.values[1:].max() < 0.5 * gates.values[0]
    assert ((gates.values >= 0) & (gates.values <= WIDEST)).all()
    assert gates.result.steps == 40


def test_features_of_a_group_share_their_gate() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 4))
    job = Job(x, x[:, 0].astype(np.float32), 1, squares)
    assert learn_gates(job, np.array([0, 0, 1, 1]), 1e-2, list(folds(np.arange(60), 2)), 5).values.shape == (2,)
    assert job.some(np.arange(10)).x.shape == (10, 4)


def test_a_closed_gate_is_a_large_but_finite_penalty() -> None:
    assert penalties(np.array([1.0, 0.5, 0.0]), 0.1) == pytest.approx([0.1, 0.4, 0.1 / LOWEST**2])


def test_the_warm_up_comes_near_the_solution_and_leaves_no_gradients() -> None:
    theta = torch.zeros(2, dtype=torch.float64)
    goal = torch.tensor([1.0, -2.0], dtype=torch.float64)
    warm_up(lambda: 0.5 * ((theta - goal) ** 2).sum(), [theta], 0.1)
    torch.testing.assert_close(theta, goal, atol=0.05, rtol=0)
    assert not theta.requires_grad
    assert theta.grad is None
