"""What every strategy has."""

import pytest
import torch
from torch import nn

from bome.continual.run import make_strategy
from bome.continual.settings import Settings
from tests.support.small_streams import coloured_stream


@pytest.mark.parametrize("name", ["offline", "er", "gem", "mer", "ctn+bome"])
def test_predictions_have_the_statistics_of_what_is_remembered(name: str) -> None:
    """Against the mean and variance of the first convolution on these samples; parameters and momenta stay."""
    strategy = make_strategy(name, coloured_stream(), Settings(batch=5, memory=10))
    for given in strategy.stages()[0]:
        strategy.observe(given)
    weights = [x.detach().clone() for x in strategy.base.parameters()]
    strategy.finish(0)
    task, row = strategy.memory(1)
    assert set(task.tolist()) == ({0, 1} if name == "offline" else {0})
    images = strategy.stream.training(task, row).x
    convolution = next(module for module in strategy.base.modules() if isinstance(module, nn.Conv2d))
    norm = next(module for module in strategy.base.modules() if isinstance(module, nn.BatchNorm2d))
    with torch.no_grad():
        features = convolution(images)
    torch.testing.assert_close(norm.running_mean, features.mean((0, 2, 3)))
    torch.testing.assert_close(norm.running_var, features.var((0, 2, 3)))
    assert norm.momentum == 0.1
    assert all(torch.equal(x, y) for x, y in zip(strategy.base.parameters(), weights, strict=True))
