"""Many runs as one: each is what it would be alone, and one that diverges is put to rest."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper
from bome.errors import ProblemError, UnsupportedError
from bome.methods import AIDCG, ITD, SOBA, Batched, Method
from bome.methods.batched import batchable
from bome.problem import either
from bome.projections import box

RUNS = 4


def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    """θ follows v; the loss is infinite beyond 10."""
    return 0.5 * (theta - v).square().sum() + torch.where(theta.abs() > 10, torch.inf, 0.0).sum()


def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    """θ should be 1."""
    return 0.5 * (theta - 1).square().sum() + 0.05 * v.square().sum()


def starts() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return tuple(torch.randn(RUNS, 2, generator=draw, dtype=torch.float64) for _ in range(2))  # type: ignore[return-value]


def stepped(problem: Problem, method: Method, oracle: Any) -> Stepper:
    v, theta = problem.v.leaves, problem.theta.leaves
    return Stepper(problem, method, SGD(v, 0.1, momentum=0.5), SGD(theta, 0.1), oracle)


METHODS: list[Method] = [BOME(GradientDescent(0.2, 3)), BOME(GradientDescent(0.2, 3), phi="gap"), SOBA()]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_each_run_of_a_batch_is_what_it_would_be_alone(method: Method) -> None:
    batched = Batched(method)
    f, g = (outer, inner) if batched.oracle == "func" else (either(outer, 1), either(inner, 1))
    together = stepped(Problem(f, g, *starts()), batched, batched.oracle)
    v, theta = starts()
    alone = [stepped(Problem(outer, inner, v[i], theta[i]), method, "autograd") for i in range(RUNS)]
    for _ in range(5):
        together.step()
        for one in alone:
            one.step()
    for kind in ("v", "theta"):
        found = getattr(together.problem.point, kind)[0]
        expected = torch.stack([getattr(one.problem.point, kind)[0] for one in alone])
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert together.state["alive"][0].all()


def test_a_run_that_diverges_is_put_to_rest_and_the_others_go_on() -> None:
    v, theta = starts()
    theta[1] = 100.0
    stepper = stepped(Problem(outer, inner, v, theta), Batched(METHODS[0]), "func")
    for _ in range(3):
        info = stepper.step()
    assert stepper.state["alive"][0].tolist() == [True, False, True, True]
    assert theta[1].tolist() == [100.0, 100.0]
    assert torch.isfinite(info.f)  # the mean of the runs alive


def test_runs_have_step_sizes_of_their_own() -> None:
    v, theta = (x[:1].expand(2, 2).clone() for x in starts())
    start = v.clone()
    problem = Problem(outer, inner, v, theta)
    method = Batched(METHODS[0], v_scale=(1.0, 0.5))
    Stepper(problem, method, SGD([v], 0.1), SGD([theta], 0.1), "func").step()
    moved = v - start
    torch.testing.assert_close(moved[1], 0.5 * moved[0])
    assert torch.equal(theta[0], theta[1])


def test_what_cannot_run_as_a_batch_is_refused() -> None:
    assert batchable(METHODS[0])
    assert batchable(SOBA())
    for method in (ITD(GradientDescent(0.1)), AIDCG(GradientDescent(0.1))):
        if not batchable(method):
            with pytest.raises(UnsupportedError, match=f"separable methods run as a batch; {method.name} is neither"):
                Batched(method)
    v, theta = starts()
    with pytest.raises(UnsupportedError, match="needs a first dimension that counts the runs"):
        stepped(Problem(outer, inner, v, theta[0]), Batched(METHODS[0]), "func")
    with pytest.raises(ProblemError, match="v_scale must have one factor for each of the 4 runs, got 2"):
        stepped(Problem(outer, inner, v, theta), Batched(METHODS[0], v_scale=(1.0, 2.0)), "func")
    with pytest.raises(UnsupportedError, match=r"Batched\(bome\) needs oracle='func', got AutogradOracle"):
        stepped(Problem(outer, inner, v, theta), Batched(METHODS[0]), "autograd")


def test_a_run_whose_bound_is_active_has_the_multiplier_of_its_own_step_sizes() -> None:
    """Each run is what it would be alone, though λ depends on what its own step sizes leave within [0, 1]."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v - 2).square().sum() + (theta + 1).square().sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta - v).square().sum()

    def end(v: Tensor, theta: Tensor, rate: float, scales: tuple[float, ...]) -> Tensor:
        dim = v.dim() if not scales else v.dim() - 1
        losses = either(outer, dim), either(inner, dim)
        problem = Problem(*losses, v.clone(), theta.clone(), project_v=box(0, 1), project_theta=box(0, 1))
        bome = BOME(GradientDescent(0.1, 5), geometry="steps")
        stepper = Stepper(
            problem, Batched(bome, v_scale=scales) if scales else bome, SGD(problem.v.leaves, rate),
            SGD(problem.theta.leaves, 0.1), oracle="func",
        )  # fmt: skip
        for _ in range(8):
            stepper.step()
        return torch.cat([problem.point.v[0], problem.point.theta[0]], dim=-1)

    v, theta = torch.tensor([0.9, 0.2], dtype=torch.float64), torch.tensor([0.1, 0.8], dtype=torch.float64)
    together = end(v.expand(2, 2), theta.expand(2, 2), 0.2, (1.0, 0.25))
    torch.testing.assert_close(together, torch.stack([end(v, theta, rate, ()) for rate in (0.2, 0.05)]))
