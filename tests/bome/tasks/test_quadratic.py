"""The random quadratics: formulas, fixed points, and seeds."""

from functools import partial

import numpy as np
import pytest
import torch

from bome.tasks import quadratic, quadratic_instance
from bome.testing import check_task
from tests.support.toys import VARIANTS, loss, random_points


@pytest.mark.parametrize("variant", VARIANTS["quadratic"])
def test_every_variant_passes_the_battery(variant: str) -> None:
    check_task(partial(quadratic, variant=variant))


@pytest.mark.parametrize("variant", VARIANTS["quadratic"])
def test_losses_of_the_quadratic_are_its_formulas(variant: str) -> None:
    task, instance = quadratic(variant), quadratic_instance(variant)
    a_matrix, h, a, b = (x.numpy() for x in (instance.A, instance.H, instance.a, instance.b))
    for point in random_points(task, 5):
        v, theta = point.v[0].numpy(), point.theta[0].numpy()
        r = theta - a_matrix @ v
        f = 0.5 * np.sum((theta - a) ** 2) + 0.5 * np.sum((v - b) ** 2)
        assert loss(task, "f", *(x[0] for x in point)) == pytest.approx(f, rel=1e-13)
        assert loss(task, "g", *(x[0] for x in point)) == pytest.approx(0.5 * r @ h @ r, rel=1e-13)


@pytest.mark.parametrize("variant", VARIANTS["quadratic"])
def test_the_instance_of_the_quadratic_knows_its_derivative_and_fixed_points(variant: str) -> None:
    task, instance = quadratic(variant, seed=3), quadratic_instance(variant, seed=3)
    v = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(instance.outer(v, instance.A @ v), v)
    torch.testing.assert_close(instance.exact_hypergradient(v.detach()), slope, rtol=1e-13, atol=1e-13)

    best, theta = instance.solution()
    assert float(instance.exact_hypergradient(best).norm()) <= 1e-13
    assert instance.residual(*instance.fixed_point(3, 0.2), 3, 0.2) <= 1e-13
    # (1 − 0.2 · 0.5)^400 = 5e-19: with so many inner steps the fixed point is the solution.
    torch.testing.assert_close(instance.fixed_point(400, 0.2), (best, theta), rtol=0, atol=1e-12)
    assert instance.residual(best, theta, 3, 0.2) > 0.1

    eigenvalues = torch.linalg.eigvalsh(instance.H)
    assert task.settings.inner_lr <= 1 / float(eigenvalues.max())
    assert float(eigenvalues.max() / eigenvalues.min()) == pytest.approx(4.0 if variant == "code" else 1.0)


def test_the_seed_draws_the_quadratic() -> None:
    assert torch.equal(quadratic_instance(seed=1).A, quadratic_instance(seed=1).A)
    assert not torch.equal(quadratic_instance(seed=1).A, quadratic_instance(seed=2).A)
    assert torch.equal(quadratic_instance(seed=1, dtype=torch.float32).H, quadratic_instance(seed=1).H.float())
