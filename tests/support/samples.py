"""Small problems and instruments that several test files use."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bome import BOME, AutogradOracle, BackwardOracle, Batches, FuncOracle, GradientDescent, Problem
from bome.core.barrier import Metric
from bome.methods.base import Step
from bome.oracles import Oracle
from bome_studies.ledger import Ledger as Ledger

ORACLES: tuple[type[Oracle], ...] = (AutogradOracle, FuncOracle, BackwardOracle)
Name = Literal["autograd", "func", "backward"]
NAMES: tuple[Name, ...] = ("autograd", "func", "backward")


def bome(steps: int = 3, lr: float = 0.1, **options: Any) -> BOME:
    """BOME with T inner steps of size α."""
    return BOME(GradientDescent(lr, steps), **options)


def toy(dtype: torch.dtype = torch.float64, **options: Any) -> Problem:
    """f = ½‖θ − a‖² + ½‖v − b‖² and g = ½‖θ − Av‖² with curvatures 1 and 2; three entries in v, two in θ."""
    a, b = torch.tensor([1.0, -2.0], dtype=dtype), torch.tensor([0.5, 0.0, 1.0], dtype=dtype)
    matrix = torch.tensor([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]], dtype=dtype)
    curvature = torch.tensor([1.0, 2.0], dtype=dtype)

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - a).square().sum() + 0.5 * (v - b).square().sum()

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (curvature * (theta - matrix @ v).square()).sum()

    start_v = torch.tensor([0.3, -0.2, 0.1], dtype=dtype)
    return Problem(outer, inner, start_v, torch.tensor([1.0, 1.0], dtype=dtype), **options)


def blobs(
    n: int = 24, features: int = 4, classes: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Random features and labels."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(classes, (n,), generator=generator)


def weighted_loss(w: Tensor, net: Any, batch: Any) -> Tensor:
    """g of data cleaning: a weight for each of the samples `batch[-1]`."""
    x, y, rows = batch
    return (w[rows].sigmoid() * cross_entropy(net(x), y, reduction="none")).mean()


def plain_loss(w: Any, net: Any, batch: Any) -> Tensor:
    """f of data cleaning."""
    return cross_entropy(net(batch[0]), batch[1])


def mlp(dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Sequential:
    """4 → 5 → 3 with tanh."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def cleaning(net: nn.Module | None = None, dtype: torch.dtype = torch.float64) -> tuple[Problem, Batches]:
    """Data cleaning of 24 samples with a small network, and its full batches."""
    x, y = blobs(dtype=dtype)
    weights = torch.linspace(-1, 1, 16, dtype=dtype)
    problem = Problem(plain_loss, weighted_loss, weights, net if net is not None else mlp(dtype))
    return problem, Batches(inner=((x[:16], y[:16], torch.arange(16)),), outer=((x[16:], y[16:]),))


def direction(oracle: Oracle, method: BOME, batches: Batches) -> Step:
    """One step of the method at the current point of the oracle's problem."""
    oracle.begin()
    point = oracle.problem.point
    metric = Metric((1.0,) * len(point.v), (1.0,) * len(point.theta))
    return method.step(oracle, point, {}, batches, metric)


def everything(problem: Problem, *optimisers: torch.optim.Optimizer) -> list[Any]:
    """Copies of all that a failed step must not change: variables, buffers, optimiser states, torch's generator."""
    copies: list[Any] = [x.detach().clone() for x in (*problem.v.leaves, *problem.theta.leaves)]
    copies += [buffer.clone() for buffer in problem.buffers.values()]
    for optimiser in optimisers:
        for state in optimiser.state.values():
            copies += [x.clone() if isinstance(x, Tensor) else x for x in state.values()]
    return [*copies, torch.get_rng_state()]


def same(a: Any, b: Any) -> bool:
    """Equal in every bit, for nested lists, tuples and dicts of tensors and plain values."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b or (a != a and b != b))  # NaN equals NaN here


class Calls:
    """Counts the calls of a loss, and may interfere with chosen ones.

    Args:
        loss: the loss.
        interfere: given the number of the call and the value, returns what the caller sees, or raises.
    """

    def __init__(self, loss: Callable[..., Tensor], interfere: Callable[[int, Tensor], Tensor] | None = None) -> None:
        self.loss, self.interfere, self.count = loss, interfere, 0

    def __call__(self, v: Any, theta: Any, batch: Any) -> Tensor:
        self.count += 1
        value = self.loss(v, theta, batch)
        return value if self.interfere is None else self.interfere(self.count - 1, value)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Torch's generator at a seed for a while."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
