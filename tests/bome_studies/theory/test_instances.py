"""The instances of the theory: gradients, products and constants against other ways to get them."""

import pytest
import torch
from torch import Tensor

from bome.tasks import TASKS
from bome_studies.theory import trials as trials
from bome_studies.theory.instances import Bed, Sines, Start, residual_instances, residual_start
from bome_studies.theory.stretches import Spec, descended
from tests.support.beds import beds, each


@pytest.mark.parametrize(("bed", "start"), beds())
def test_the_gradients_written_out_are_those_of_the_losses(bed: Bed, start: Start) -> None:
    written = bed.inner_gradient(*start), bed.outer_gradient(*start)
    for loss, found in zip((bed.inner, bed.outer), written, strict=True):
        for i, (v, theta, data) in enumerate(each(bed, start)):
            grads = torch.func.grad(loss, argnums=(0, 1))(v, theta, data)
            for grad, mine in zip(grads, found, strict=True):
                torch.testing.assert_close(mine[i], grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_the_second_order_products_are_those_of_the_inner_loss(bed: Bed, start: Start) -> None:
    omega = torch.randn(start.theta.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cross, own = bed.products(*start, omega)
    for i, (v, theta, data) in enumerate(each(bed, start)):

        def pushed(v: Tensor, theta: Tensor, data: object = data, i: int = i) -> Tensor:
            pushed: Tensor = torch.func.grad(bed.inner, argnums=1)(v, theta, data) @ omega[i]
            return pushed

        by_v, by_theta = torch.func.grad(pushed, argnums=(0, 1))(v, theta)
        torch.testing.assert_close(cross[i], by_v, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(own[i], by_theta, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_values_are_those_of_the_losses_up_to_a_constant(bed: Bed, start: Start) -> None:
    elsewhere = Start(start.v, bed.attraction(*start))
    gap = bed.inner_value(*start) - bed.inner_value(*elsewhere)
    f = bed.outer_value(*start)
    for i, (run, end) in enumerate(zip(each(bed, start), each(bed, elsewhere), strict=True)):
        assert float(bed.inner(*run) - bed.inner(*end)) == pytest.approx(float(gap[i]), rel=1e-12)
        assert float(bed.outer(*run)) == pytest.approx(float(f[i]), rel=1e-12)


@pytest.mark.parametrize(("bed", "start"), beds())
def test_gradient_descent_goes_to_the_attraction_point(bed: Bed, start: Start) -> None:
    end = descended(bed, *start, Spec(2000, 1 / 3))[-1]
    torch.testing.assert_close(end, bed.attraction(*start), rtol=1e-9, atol=1e-9)


def test_the_constants_of_the_instances_are_right() -> None:
    """‖∇_θ g‖² ≥ κ q and curvature of at most L at many points; for w > 0 nearly with equality somewhere."""
    bed = residual_instances(200)
    gaps = torch.logspace(-4, 2, 400, dtype=torch.float64)
    start = residual_start(bed, gaps)
    ratio = bed.inner_gradient(*start)[1].square().sum(-1) / bed.inner_value(*start)
    assert (ratio >= bed.pl() * (1 - 1e-9)).all()
    torch.testing.assert_close(bed.smoothness(), torch.full((400,), 1.5, dtype=torch.float64))
    assert bed.pl()[0] == pytest.approx(1.5)
    assert bed.pl()[-1] == pytest.approx(0.0439, abs=1e-4)


def test_starts_have_the_gap_that_is_asked_for() -> None:
    bed = residual_instances(2)
    gaps = torch.tensor([1e-3, 1.0, 10.0, 0.1], dtype=torch.float64)
    start = residual_start(bed, gaps)
    torch.testing.assert_close(bed.inner_value(*start), gaps, rtol=1e-10, atol=0)


def test_the_best_value_of_a_basin_is_that_of_the_task() -> None:
    optimum = TASKS["sine"]().optimum
    assert optimum is not None
    around = torch.arange(-3, 4)
    values = Sines().local_value(torch.cartesian_prod(around, around))
    assert float(values.min()) == pytest.approx(optimum.f, rel=1e-12)
