"""What every strategy of continual learning has: networks, batches of a stream, predictions and a state."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bome.continual.settings import Settings
from bome.continual.streams import Labelled, Stream

CHUNK = 2_000
"""Test images judged at a time."""


class Samples(NamedTuple):
    """Training samples by their task and their number in it."""

    task: Tensor
    row: Tensor


class Strategy(ABC):
    """Learns from one batch after the other.

    Attributes:
        stream: the tasks; a strategy reads `stream.training` only.
        settings: the settings.
    """

    def __init__(self, stream: Stream, settings: Settings, *, modulated: bool) -> None:
        self.stream, self.settings = stream, settings
        self.base, self.controller = stream.networks(modulated=modulated)
        self.generator = torch.Generator().manual_seed(stream.seed)

    def stages(self) -> list[list[Samples]]:
        """The batches between judgements: those of one task after the other."""
        order = torch.split(torch.arange(self.stream.samples), self.settings.batch)
        return [[Samples(torch.full_like(rows, task), rows) for rows in order] for task in range(self.stream.tasks)]

    @abstractmethod
    def observe(self, batch: Samples) -> None:
        """Learn from a batch."""

    @abstractmethod
    def memory(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Task and row of all training samples that are kept of the first tasks."""

    def forward(self, samples: Labelled) -> Tensor:
        """The scores of all classes, as in training."""
        scores: Tensor = self.base(samples.x)
        return scores

    def finish(self, task: int) -> None:
        """The last batch of a task is over: running statistics (BatchNorm) are taken anew from what is remembered.

        Those of the last batches lag behind θ, the more the fewer evaluations change them.
        """
        norms = [module for module in self.base.modules() if isinstance(module, nn.BatchNorm2d)]
        if not norms:
            return
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        try:
            with torch.no_grad():
                self.forward(self.stream.training(*self.memory(task + 1)))
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    def predict(self, samples: Labelled) -> Tensor:
        """The scores of samples of one task."""
        with torch.no_grad(), evaluating(self.base):
            parts = [self.stream.scores(self.base(x), t) for x, t in chunks(samples)]
        return torch.cat(parts)

    @property
    def evaluations(self) -> dict[str, int]:
        """How often the losses of a bilevel problem were evaluated, by kind; nothing where there is none."""
        return {}

    @property
    def tuned(self) -> dict[str, float]:
        """What a tuner picked."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {"generator": self.generator.get_state(), "base": dict(self.base.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.generator.set_state(state["generator"])
        self.base.load_state_dict(state["base"])

    def loss(self, samples: Labelled) -> Tensor:
        """The mean cross-entropy of the base network alone."""
        return cross_entropy(self.stream.scores(self.base(samples.x), samples.task), samples.y)


def join(*parts: Labelled) -> Labelled:
    """One after the other."""
    return Labelled(*(torch.cat(each) for each in zip(*parts, strict=True)))


def chunks(samples: Labelled) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and their tasks, some at a time."""
    return zip(torch.split(samples.x, CHUNK), torch.split(samples.task, CHUNK), strict=True)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module in the mode of evaluation for a while."""
    module.eval()
    try:
        yield
    finally:
        module.train()
