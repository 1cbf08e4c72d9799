"""Second-order products, unrolled loops, and what tells in advance that they cannot be had."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.utils.checkpoint import checkpoint

from bome import AutogradOracle, Batches, GradientDescent, Problem, box
from bome.oracles.autograd import connections, gradients, second_order_failure
from tests.support.problems import bed
from tests.support.samples import toy

NONE = Batches()


def test_the_gradient_map_gives_the_hessian_and_the_mixed_product() -> None:
    q = bed()
    oracle = AutogradOracle(q.problem)
    z = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at = oracle.gradient_map((q.v,), (q.theta,), None)
    torch.testing.assert_close(at.value[0], q.H @ (q.theta - q.A @ q.v))
    pulled = at.pull((z,))
    torch.testing.assert_close(pulled.theta[0], q.H @ z)
    torch.testing.assert_close(pulled.v[0], -q.A.T @ (q.H @ z))
    assert oracle.counts == {"g": 1, "hvp": 1, "xvp": 1}


def test_one_step_of_the_inner_map_has_the_jacobian_of_gradient_descent() -> None:
    q = bed()
    oracle = AutogradOracle(q.problem)
    step = oracle.inner_map((q.v,), (q.theta,), GradientDescent(0.1), None)
    torch.testing.assert_close(step.value[0], q.after(0.1, 1))
    z = torch.arange(4.0, dtype=torch.float64)
    torch.testing.assert_close(step.pull((z,)).theta[0], z - 0.1 * q.H @ z)
    torch.testing.assert_close(step.pull((z,)).v[0], 0.1 * q.A.T @ (q.H @ z))


@pytest.mark.parametrize("steps", [1, 5])
def test_an_unrolled_loop_has_the_derivative_of_its_end(steps: int) -> None:
    """θ_T = Av + P(θ − Av) with P = (I − αH)^T, so that df/dv = f_v + Aᵀ(I − P)ᵀ f_θ(θ_T)."""
    q = bed()
    oracle = AutogradOracle(q.problem)
    f, (theta,) = oracle.unroll((q.v,), (q.theta,), GradientDescent(0.2, steps), NONE)
    torch.testing.assert_close(theta, q.after(0.2, steps))
    still = torch.eye(4, dtype=torch.float64) - q.power(0.2, steps)
    torch.testing.assert_close(f.grad.v[0], q.v - q.b + q.A.T @ still.T @ (theta - q.a))
    assert f.grad.theta == ()
    assert oracle.counts == {"g": steps, "f": 1, "hvp": steps, "xvp": steps}


def test_an_unrolled_loop_is_projected_at_every_step() -> None:
    problem = toy(project_theta=box(-0.1, 0.1))
    _, (theta,) = AutogradOracle(problem).unroll(*problem.point, GradientDescent(0.1, 3), NONE)
    assert (theta.abs() <= 0.1).all()


def test_gradients_are_zero_where_nothing_flows() -> None:
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    assert torch.equal(gradients(torch.tensor(1.0), (x,))[0], torch.zeros(2))
    by_x, by_y = gradients((x**2).sum(), (x, y))
    assert by_x.tolist() == [2, 2]
    assert by_y.tolist() == [0, 0]


def test_connections_tell_through_which_losses_a_gradient_flows() -> None:
    assert connections(toy(), NONE) == {("f", "v"), ("f", "theta"), ("g", "v"), ("g", "theta")}
    problem = Problem(
        lambda v, t, b: (t - 1).square().sum(), lambda v, t, b: (t - v.detach()).square().sum(),
        torch.zeros(2), torch.zeros(2),
    )  # fmt: skip
    assert connections(problem, NONE) == {("f", "theta"), ("g", "theta")}
    constant = Problem(lambda v, t, b: torch.ones(()), lambda v, t, b: t.sum(), torch.zeros(2), torch.zeros(2))
    assert connections(constant, NONE) == {("g", "theta")}


class Slope(torch.autograd.Function):
    """The gradient of a square, which has no derivative of its own, as that of fused attention."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, grad: Tensor) -> Tensor:
        """2x times the gradient that comes in."""
        return 2 * x * grad

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """There is none."""
        raise NotImplementedError("the derivative of Slope is not implemented. It is fused")


class Square(torch.autograd.Function):
    """A square that can be differentiated once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """x²."""
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """By `Slope`."""
        return Slope.apply(*ctx.saved_tensors, *grads)  # type: ignore[no-untyped-call]


def test_losses_that_cannot_be_differentiated_twice_are_found_by_one_product() -> None:
    assert second_order_failure(toy(), NONE) is None
    v, theta = torch.zeros(2), torch.ones(2)
    once = Problem(lambda v, t, b: t.sum(), lambda v, t, b: Square.apply(t - v).sum(), v, theta)  # type: ignore[no-untyped-call]
    assert second_order_failure(once, NONE) == "the derivative of Slope is not implemented"
    net = nn.Linear(2, 1)

    def inner(v: Tensor, net: nn.Module, batch: object) -> Tensor:
        value: Tensor = checkpoint(net, v[None], use_reentrant=False)
        return value.square().sum()

    again = Problem(lambda v, net, b: net(v).sum(), inner, torch.ones(2), net)
    assert "activation checkpointing" in (second_order_failure(again, NONE) or "")


def test_the_hessian_of_a_network_is_that_of_its_parameters() -> None:
    """Against the dense one, through a module whose parameters are lent."""
    net = nn.Linear(2, 1, bias=False).double()
    x = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    problem = Problem(
        lambda v, net, b: net(x).sum(), lambda v, net, b: (net(x) - v).tanh().sum(), torch.zeros((), dtype=x.dtype), net
    )
    z = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    pulled = AutogradOracle(problem).gradient_map(*problem.point, None).pull((z,))
    dense = hessian(lambda w: (x @ w.T).tanh().sum(), net.weight.detach()).view(2, 2)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(pulled.theta[0].flatten(), dense @ z.flatten())
