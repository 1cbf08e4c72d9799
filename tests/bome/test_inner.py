"""Inner maps against the optimisers of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Adam, Optimizer, RMSprop

from bome import (
    BOME,
    AdamDescent,
    AutogradOracle,
    Batches,
    FuncOracle,
    GradientDescent,
    Problem,
    Stepper,
    TorchOptim,
    box,
)
from bome.errors import UnsupportedError
from bome.inner import DifferentiableMap, InnerMap, StepMap
from bome.oracles import Oracle
from tests.support.samples import ORACLES, bome, cleaning, direction, toy

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _leaves(dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in ((3, 2), (), (4,)))


def _value(theta: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([(x.cosh() - 1 + x.square() / 2).sum() for x in theta]).sum()


def _gradient(theta: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Of Σ (cosh θ − 1) + θ²/2."""
    return tuple(x.sinh() + x for x in theta)


def _walk(inner: StepMap, theta: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    theta = tuple(x.clone() for x in theta)
    buffers = inner.start(theta)
    for _ in range(inner.steps):
        buffers = inner.step_(theta, lambda: (_value(theta), _gradient(theta)), buffers)
    return theta


def _torch_walk(make: Callable[[list[Tensor]], Optimizer], steps: int, theta: tuple[Tensor, ...]) -> list[Tensor]:
    live = [x.clone() for x in theta]
    optimiser = make(live)
    for _ in range(steps):
        for x, g in zip(live, _gradient(tuple(live)), strict=True):
            x.grad = g
        optimiser.step()
    return live


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradient_descent_is_torch_sgd(momentum: float, dtype: torch.dtype) -> None:
    mine = _walk(GradientDescent(0.05, 20, momentum), _leaves(dtype))
    other = _torch_walk(lambda p: SGD(p, lr=0.05, momentum=momentum), 20, _leaves(dtype))
    for x, y in zip(mine, other, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-14 if dtype == torch.float64 else 1e-6, atol=0)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_adam_is_torch_adam_where_epsilon_does_not_matter(dtype: torch.dtype, bound: float) -> None:
    """ε = 1e-12 inside or outside the root changes a step by a factor 1 + 1e-12/|∇g|."""
    mine = _walk(AdamDescent(0.05, 20, eps=1e-12), _leaves(dtype))
    other = _torch_walk(lambda p: Adam(p, lr=0.05, eps=1e-12), 20, _leaves(dtype))
    for x, y in zip(mine, other, strict=True):
        torch.testing.assert_close(x, y, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_step_of_adam_has_the_length_of_its_step_size_in_every_dtype(dtype: torch.dtype) -> None:
    """m/(1−β1) = g and s/(1−β2) = g², so the step is α sign(g), down to gradients of 1e-4 and for none at all."""
    theta = torch.zeros(4, dtype=dtype)
    grad = torch.tensor([1.0, -1e-2, 1e-4, 0.0], dtype=dtype)
    inner = AdamDescent(0.5, 1)
    moved, _ = inner.update(theta, grad, inner.init(theta))
    assert moved.dtype == dtype
    torch.testing.assert_close(moved.double(), torch.tensor([-0.5, 0.5, -0.5, 0.0]).double(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("inner", [GradientDescent(0.1, 4), GradientDescent(0.1, 4, 0.5), AdamDescent(0.1, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pure_and_in_place_steps_agree_and_keep_the_dtype(inner: DifferentiableMap, dtype: torch.dtype) -> None:
    start = _leaves(dtype)
    pure, buffers = start, inner.start(start)
    for _ in range(inner.steps):
        pure, buffers = inner.advance(pure, _gradient(pure), buffers)
    in_place = _walk(inner, start)
    assert all(torch.equal(x, y) and x.dtype == dtype for x, y in zip(pure, in_place, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(start, _leaves(dtype), strict=True))


@pytest.mark.parametrize("oracle", [o for o in ORACLES if o is not FuncOracle])
def test_any_torch_optimiser_can_look_ahead(oracle: type[Oracle]) -> None:
    """SGD by TorchOptim is gradient descent; RMSprop gives a direction of its own."""
    make: dict[str, InnerMap] = {
        "gd": GradientDescent(0.1, 5),
        "sgd": TorchOptim(lambda p: SGD(p, lr=0.1), 5),
        "rmsprop": TorchOptim(lambda p: RMSprop(p, lr=0.1), 5),
    }
    problem, batches = cleaning()
    found = {name: direction(oracle(problem), BOME(inner), batches) for name, inner in make.items()}
    for x, y in zip(found["gd"].direction.theta, found["sgd"].direction.theta, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)
    assert float(found["gd"].info.q or 0) != float(found["rmsprop"].info.q or 0)


PAIRS: list[tuple[type[Oracle], InnerMap]] = [
    *((oracle, inner) for oracle in ORACLES for inner in (GradientDescent(0.05, 6, 0.9), AdamDescent(0.05, 6))),
    *((oracle, TorchOptim(lambda p: Adam(p), 6)) for oracle in ORACLES if oracle is not FuncOracle),
]


@pytest.mark.parametrize(("oracle", "inner"), PAIRS)
def test_buffers_start_afresh_in_every_outer_step(oracle: type[Oracle], inner: InnerMap) -> None:
    """The look-ahead from one point is the same whether or not another one came before it."""
    problem, batches = cleaning()
    one = oracle(problem)
    first, second = (direction(one, BOME(inner), batches) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first.direction.theta, second.direction.theta, strict=True))


def test_the_functional_oracle_refuses_a_torch_optimiser_at_construction() -> None:
    problem = toy()
    method = BOME(TorchOptim(lambda p: SGD(p, lr=0.1), 2))
    with pytest.raises(UnsupportedError, match="FuncOracle needs a pure inner map, not TorchOptim: use Grad"):
        Stepper(problem, method, SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1), oracle="func")
    with pytest.raises(UnsupportedError, match="FuncOracle needs a pure inner map, not TorchOptim: use Grad"):
        direction(FuncOracle(problem), method, Batches())


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_projection_of_theta_holds_at_every_inner_step(oracle: type[Oracle]) -> None:
    """g = −θ from θ = 0 with α = 1: the look-ahead goes to the wall at 2.5 and stays; q̂ = g(0) − g(2.5) = 2.5."""

    def clamp(x: Tensor) -> Tensor:
        seen.append(float(x.detach().max()))
        return x.clamp(max=2.5)

    seen: list[float] = []
    problem = Problem(
        lambda v, theta, batch: (v + theta).sum(),
        lambda v, theta, batch: (v - theta).sum(),
        torch.zeros(1),
        torch.zeros(1),
        project_theta=clamp,
    )
    seen.clear()
    info: Any = direction(oracle(problem), bome(5, lr=1.0), Batches()).info
    assert float(info.q) == 2.5
    assert seen[:5] == [1.0, 2.0, 3.0, 3.5, 3.5]  # what follows is the search for λ


def test_a_different_number_of_steps_is_another_map_with_the_same_settings() -> None:
    for inner in (
        GradientDescent(0.1, 4, 0.5),
        AdamDescent(0.1, 4, (0.5, 0.6), 1e-3),
        TorchOptim(lambda p: SGD(p, 1.0), 4),
    ):
        other = inner.with_steps(9)
        assert (inner.steps, other.steps) == (4, 9)
        assert other.with_steps(4) == inner


def test_gradient_descent_in_place_makes_no_copy_of_theta() -> None:
    """Its address does not change, and neither does that of an oracle's working copy; the start is left alone."""
    theta, grad = (torch.ones(1000),), (torch.ones(1000),)
    place = theta[0].data_ptr()
    GradientDescent(0.5).advance_(theta, grad, ((),))
    assert theta[0].data_ptr() == place
    assert float(theta[0].sum()) == 500
    problem = toy()
    start = problem.point.theta[0].clone()
    direction(AutogradOracle(problem), bome(), Batches())
    assert torch.equal(problem.point.theta[0], start)


def lbfgs(steps: int = 1, **options: Any) -> TorchOptim:
    return TorchOptim(lambda p: LBFGS(p, line_search_fn="strong_wolfe", **options), steps)


@pytest.mark.parametrize("steps", [1, 3])
def test_lbfgs_by_closure_is_that_of_torch(steps: int) -> None:
    """The same evaluations in the same order as a closure over the loss itself, in every bit."""
    mine = _walk(lbfgs(steps, max_iter=3), _leaves())
    live = [x.clone().requires_grad_() for x in _leaves()]
    optimiser: Optimizer = LBFGS(live, max_iter=3, line_search_fn="strong_wolfe")

    def closure() -> float:
        for x, g in zip(live, _gradient(tuple(x.detach() for x in live)), strict=True):
            x.grad = g
        return float(_value(tuple(x.detach() for x in live)))

    for _ in range(steps):
        optimiser.step(closure)
    assert all(torch.equal(x, y.detach()) for x, y in zip(mine, live, strict=True))


@pytest.mark.parametrize("oracle", [o for o in ORACLES if o is not FuncOracle])
def test_lbfgs_solves_the_inner_problem_and_every_closure_call_is_counted(oracle: type[Oracle]) -> None:
    """g* = 0 and θ* = Av on a convex quadratic, as θ^(T) of the look-ahead and as the end of `descend`."""
    calls: list[int] = []
    problem = toy()
    loss = problem.inner

    def counted(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        return loss(v, theta, batch)

    problem.inner = counted
    one = oracle(problem)
    step = direction(one, BOME(lbfgs()), Batches())
    v, theta = (x.clone() for (x,) in problem.point)
    assert step.info.q == pytest.approx(float(loss(v, theta, None)), rel=1e-9)
    assert 3 < one.counts["g"] == len(calls)
    (end,) = one.descend((v,), (theta,), lbfgs(), (None,))
    matrix = torch.tensor([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(end, matrix @ v, rtol=0, atol=1e-5)
    assert one.counts["g"] == len(calls)
    assert torch.equal(problem.point.theta[0], theta)


def test_lbfgs_looks_ahead_from_what_is_known_of_the_start() -> None:
    """One evaluation in a step beside that of (v, θ) and the end: its first closure call costs nothing."""
    problem = toy()
    one = AutogradOracle(problem)
    direction(one, BOME(TorchOptim(lambda p: LBFGS(p, max_iter=1), 4)), Batches())
    assert one.counts["g"] == 1 + 3 + 1


def test_lbfgs_is_refused_where_theta_has_a_projection() -> None:
    """Its line search would leave the set, and the projection of its end is no constrained minimiser."""
    problem = toy(project_theta=box(0, 1))
    with pytest.raises(UnsupportedError, match="such as LBFGS, knows nothing of project_theta: use GradientDescent"):
        AutogradOracle(problem).check_inner(lbfgs())
    AutogradOracle(problem).check_inner(TorchOptim(lambda p: SGD(p, 0.1)))
    with pytest.raises(UnsupportedError, match="FuncOracle needs a pure inner map, not TorchOptim"):
        FuncOracle(toy()).check_inner(lbfgs())
