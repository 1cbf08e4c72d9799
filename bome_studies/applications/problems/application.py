"""What an application is: a problem as a stranger writes it, the settings one would take first, and a judge of v."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from bome.data import Constant, Data, FixedBatches, Minibatches, Stream
from bome.problem import Problem


class Worth(NamedTuple):
    """What v is worth; never measured at the θ of the run.

    Attributes:
        F: what f stands for, at models that are trained with v and with nothing else; the lower the better.
        test: the share of right answers of these models on rows that nobody has seen, where there is one.
    """

    F: float
    test: float | None = None


class Source(NamedTuple):
    """Rows that a loss is given in minibatches.

    Attributes:
        rows: tensors of one length.
        size: of a batch.
    """

    rows: tuple[Tensor, ...]
    size: int

    @property
    def parts(self) -> int:
        """How many batches the rows make."""
        return math.ceil(len(self.rows[0]) / self.size)

    def stream(self, seed: int, *, fixed: bool = False) -> Stream:
        """The batches, in an order that the seed decides; those of a fixed partition where a method needs one."""
        return FixedBatches(self.rows, self.parts, seed) if fixed else Minibatches(self.rows, self.size, seed)


@dataclass(frozen=True)
class First:
    """The settings that one would take first.

    Attributes:
        outer_lr: the learning rate of v.
        outer: its optimiser.
        inner_lr: α, also the learning rate of θ where it has one.
        inner_steps: T.
        momentum: of the inner steps, and of the optimiser of θ.
    """

    outer_lr: float
    outer: type[Adam] | type[SGD] = Adam
    inner_lr: float = 0.1
    inner_steps: int = 10
    momentum: float = 0.0

    def outer_opt(self, leaves: Sequence[Tensor], factor: float = 1.0) -> Optimizer:
        """The optimiser of v, with a learning rate that is so many times larger."""
        return self.outer(leaves, lr=factor * self.outer_lr)


@dataclass(frozen=True, kw_only=True)
class Application:
    """A problem, and how an answer is judged.

    Attributes:
        problem: with fresh variables.
        first: settings.
        judge: what the live v is worth.
        by_hand: baselines that anybody could think of, by name: what they are worth.
        inner: the rows of g, where it is given minibatches.
        outer: those of f.
    """

    problem: Problem
    first: First
    judge: Callable[[], Worth]
    by_hand: Mapping[str, Callable[[], Worth]] = field(default_factory=dict)
    inner: Source | None = None
    outer: Source | None = None

    def data(self, seed: int, *, fixed: bool = False) -> Data:
        """The streams of a run; in a fixed partition where a method needs one."""

        def stream(source: Source | None, seed: int) -> Stream:
            return Constant() if source is None else source.stream(seed, fixed=fixed)

        return Data(inner=stream(self.inner, seed), outer=stream(self.outer, seed + 1))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What torch draws within depends on the seed alone; outside nothing changes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def mlp(seed: int, *widths: int) -> nn.Sequential:
    """A network with ReLU between its layers, started as torch starts it."""
    layers: list[nn.Module] = []
    with seeded(seed):
        for wide, narrow in pairwise(widths):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    network: nn.Module,
    loss: Callable[[Any], Tensor],
    stream: Stream,
    steps: int,
    lr: float = 0.1,
    momentum: float = 0.0,
) -> None:
    """Gradient descent on the parameters of a network, and nothing else."""
    parameters = list(network.parameters())
    optimizer = SGD(parameters, lr=lr, momentum=momentum)
    for _ in range(steps):
        gradients = torch.autograd.grad(loss(stream.next()), parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """The share of right answers."""
    return float((scores.argmax(-1) == labels).double().mean())
