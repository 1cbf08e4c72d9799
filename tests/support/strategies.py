"""What the tests of strategies share: transcriptions read a stream sample by sample."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from bome.continual.contextual import Contextual
from bome.continual.run import make_strategy
from bome.continual.settings import Settings
from bome.continual.strategy import Samples, Strategy
from bome.continual.streams import Stream, scale


def contextual(name: str, stream: Stream, **choices: Any) -> Contextual:
    made = make_strategy(name, stream, Settings(**choices))
    assert isinstance(made, Contextual)
    return made


def batches(strategy: Strategy, stages: int) -> Iterator[tuple[int, int, Samples]]:
    """Stage, number and batch of the first stages."""
    for stage, each in enumerate(strategy.stages()[:stages]):
        for number, batch in enumerate(each):
            yield stage, number, batch


def of_pairs(stream: Stream, pairs: list[tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Images in double precision, classes and tasks of training samples, read from the stream one by one."""
    x = (torch.stack([stream.train[t, r] for t, r in pairs]).float() / 255).double()
    y = torch.tensor([int(stream.train_labels[t, r]) for t, r in pairs])
    return (x.permute(0, 3, 1, 2) if x.dim() == 4 else x), y, torch.tensor([t for t, _ in pairs])


def masked(scores: Tensor, task: Tensor) -> Tensor:
    """Scores of a head of three classes for each task, with −∞ for those of other tasks."""
    own = torch.arange(scores.shape[1]) // 3 == task[:, None]
    return torch.where(own, scores, -1e11)


def in_double_precision(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome.continual.streams.scale", lambda pixels: scale(pixels).double())
    strategy.base.double()
    strategy.controller.double()
