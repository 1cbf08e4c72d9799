"""Five routes to the same steps: three oracles, each evaluation compiled, and the whole step compiled."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome import AdamDescent, AutogradOracle, BackwardOracle, Batches, FuncOracle, GradientDescent, Problem, Stepper
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import UnsupportedError
from bome.inner import DifferentiableMap
from bome.methods import BOME
from bome.methods.base import Method
from bome.methods.compiled import Compiled
from bome.oracles import Oracle
from tests.support.samples import bome, cleaning, mlp, toy

# Torch's own compiler, when it is first loaded.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")

EAGER: dict[str, Callable[[Problem], Oracle]] = {
    "autograd": AutogradOracle,
    "func": FuncOracle,
    "backward": BackwardOracle,
}
ROUTES: dict[str, Callable[[Problem], Oracle]] = {
    **EAGER,
    "compiled evaluations": lambda problem: FuncOracle(problem, compiled=True),
    "compiled step": FuncOracle,
}


def _toy() -> tuple[Problem, Batches]:
    return toy(), Batches()


def _path(route: str, make: Callable[[], tuple[Problem, Batches]], method: Method) -> list[Tensor]:
    """All points of 20 steps with momentum and falling step sizes; and the counts, which must be exact."""
    torch.compiler.reset()
    problem, batches = make()
    opts = SGD(problem.v.leaves, 0.05, momentum=0.5), SGD(problem.theta.leaves, 0.05)
    schedulers = [LambdaLR(opt, lambda k: (k + 1) ** -0.5) for opt in opts]
    method = Compiled(method) if route == "compiled step" else method
    stepper = Stepper(problem, method, *opts, oracle=ROUTES[route](problem))
    path = []
    for _ in range(20):
        info = stepper.step_on(batches)
        for scheduler in schedulers:
            scheduler.step()
        path += [x.clone() for x in (*problem.point.v, *problem.point.theta)]
        path += [x for x in (info.f, info.g, info.q, info.lam) if x is not None]
    assert stepper.counts == {"g": 20 * 4, "f": 20}
    return path


@pytest.mark.parametrize("make", [_toy, cleaning], ids=["toy", "network"])
@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_eager_routes_agree_over_twenty_steps(make: Callable[[], tuple[Problem, Batches]], phi: Any) -> None:
    paths = [_path(route, make, bome(3, phi=phi)) for route in EAGER]
    for path in paths[1:]:
        for x, y in zip(path, paths[0], strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("route", ["compiled evaluations", "compiled step"])
@pytest.mark.parametrize("make", [_toy, pytest.param(cleaning, marks=pytest.mark.slow)], ids=["toy", "network"])
def test_compiled_routes_agree_with_the_eager_ones_over_twenty_steps(
    route: str, make: Callable[[], tuple[Problem, Batches]]
) -> None:
    for x, y in zip(_path(route, make, bome(3)), _path("autograd", make, bome(3)), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


def test_a_compiled_step_is_compiled_once_although_step_sizes_change() -> None:
    """20 steps with 20 step sizes; the compiler would give up after 8 versions and run eagerly from then on."""
    with torch._dynamo.config.patch(error_on_recompile=True):
        _path("compiled step", _toy, bome(3))


def test_a_compiled_step_refuses_what_it_would_get_wrong() -> None:
    """Random numbers, running statistics and other oracles; nothing has been changed then."""
    noisy, batches = cleaning(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).double())
    before = noisy.point.theta[0].clone()
    stepper = Stepper(noisy, Compiled(bome(2)), SGD(noisy.v.leaves, 0.1), oracle="func")
    with pytest.raises(UnsupportedError, match="without random numbers"):
        stepper.step_on(batches)
    assert torch.equal(noisy.point.theta[0], before)
    assert not stepper.counts
    normed, _ = cleaning(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double())
    with pytest.raises(UnsupportedError, match=r"running statistics \(theta.1.running_mean\)"):
        Stepper(normed, Compiled(bome(2)), SGD(normed.v.leaves, 0.1), oracle="func")
    plain, _ = cleaning()
    with pytest.raises(UnsupportedError, match="Compiled needs oracle='func', got AutogradOracle"):
        Stepper(plain, Compiled(bome(2)), SGD(plain.v.leaves, 0.1), oracle="autograd")


def test_a_compiled_method_stands_for_the_method_it_wraps() -> None:
    method = bome(7, 0.3)
    compiled = Compiled(method)
    assert compiled.name == "bome"
    assert compiled.inner_map is method.inner
    assert compiled.requires == method.requires
    assert (compiled.inner_batches, compiled.outer_batches) == (1, 1)
    problem = toy()
    assert Stepper(problem, compiled, SGD(problem.v.leaves, 0.1), oracle="func").metric.theta == (0.3,)


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
