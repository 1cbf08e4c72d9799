"""Values that know of NaN on their way, and of reentrant checkpointing."""

import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from bome.oracles.values import holds_reentrant, sound

ONE = torch.tensor(1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_is_nan_if_anything_on_its_way_was_not_finite(bad: float) -> None:
    empty = torch.zeros(0)  # a shard may be empty
    assert float(sound(ONE, [ONE], (torch.ones(3), empty))) == 1
    assert math.isnan(float(sound(ONE, [ONE, torch.tensor(bad)], (torch.ones(3),))))
    assert math.isnan(float(sound(ONE, [ONE], (torch.tensor([0.0, bad, 1.0]),))))


@pytest.mark.parametrize("reentrant", [True, False])
def test_reentrant_checkpointing_is_found_in_the_graph(reentrant: bool) -> None:
    x = torch.ones(2, requires_grad=True)
    value = checkpoint(torch.sin, x, use_reentrant=reentrant).sum() + x.sum()
    assert holds_reentrant(value) == reentrant
    assert not holds_reentrant(torch.ones(()))
