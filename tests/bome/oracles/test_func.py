"""Gradients as pure functions: eager, compiled, and mapped over many starts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import vmap
from torch.optim import SGD

from bome import AdamDescent, Batches, FuncOracle, GradientDescent, Problem, Stepper, TorchOptim
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import UnsupportedError
from bome.inner import DifferentiableMap
from bome.methods import BOME
from tests.support.routes import EAGER, path_of, toy_and_batches
from tests.support.samples import bome, cleaning, mlp, toy

# Torch's own compiler, when it is first loaded.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")


@pytest.mark.parametrize("make", [toy_and_batches, cleaning], ids=["toy", "network"])
@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_eager_routes_agree_over_twenty_steps(make: Callable[[], tuple[Problem, Batches]], phi: Any) -> None:
    paths = [path_of(route, make, bome(3, phi=phi)) for route in EAGER]
    for path in paths[1:]:
        for x, y in zip(path, paths[0], strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "make", [toy_and_batches, pytest.param(cleaning, marks=pytest.mark.slow)], ids=["toy", "network"]
)
def test_compiled_evaluations_agree_with_eager_ones_over_twenty_steps(
    make: Callable[[], tuple[Problem, Batches]],
) -> None:
    for x, y in zip(path_of("compiled evaluations", make, bome(3)), path_of("autograd", make, bome(3)), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("inner", [GradientDescent(0.1, 3), GradientDescent(0.1, 3, 0.9), AdamDescent(0.1, 3)])
@pytest.mark.parametrize("geometry", ["euclidean", "steps"])
def test_a_step_can_be_mapped_over_sixteen_starts(inner: DifferentiableMap, geometry: Any) -> None:
    """`vmap` of the method's step equals sixteen single steps, for five steps on end."""
    problem = toy()
    oracle, method, metric = FuncOracle(problem), BOME(inner, geometry=geometry), Metric((0.2,), (0.1,))
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(16, 3, generator=generator, dtype=torch.float64)
    theta = torch.randn(16, 2, generator=generator, dtype=torch.float64)

    def one(v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        step = method.step(oracle, Pair((v,), (theta,)), {}, Batches(), metric)
        assert step.info.lam is not None
        return v - 0.2 * step.direction.v[0], theta - 0.1 * step.direction.theta[0], step.info.lam

    singles = [(v[i], theta[i]) for i in range(16)]
    for _ in range(5):
        v, theta, lam = vmap(one)(v, theta)
        found = [one(*single) for single in singles]
        singles = [(x, y) for x, y, _ in found]
        torch.testing.assert_close(v, torch.stack([x for x, _, _ in found]), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(theta, torch.stack([y for _, y, _ in found]), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(lam, torch.stack([z for _, _, z in found]), rtol=1e-12, atol=1e-12)


def test_a_network_can_be_mapped_over_sixteen_starts() -> None:
    problem, batches = cleaning()
    oracle, method, metric = FuncOracle(problem), bome(3), Metric((0.1,), (0.1,) * 4)
    starts = [tuple(p.detach() for p in mlp(seed=i).parameters()) for i in range(16)]
    stacked = tuple(torch.stack(leaves) for leaves in zip(*starts, strict=True))
    v = problem.point.v

    def one(theta: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return method.step(oracle, Pair(v, theta), {}, batches, metric).direction.theta

    together = vmap(one)(stacked)
    for i, start in enumerate(starts):
        for x, y in zip(one(start), together, strict=True):
            torch.testing.assert_close(y[i], x, rtol=1e-12, atol=1e-12)


def test_inner_maps_that_are_not_pure_are_refused_before_the_first_step() -> None:
    problem = toy()
    inner = TorchOptim(lambda p: SGD(p, 0.1), 2)
    with pytest.raises(UnsupportedError, match="FuncOracle needs a pure inner map, not TorchOptim"):
        Stepper(problem, BOME(inner), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1), "func")
