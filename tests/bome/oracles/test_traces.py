"""Random numbers and running statistics are put back."""

import torch
from torch import nn

from bome import Problem
from bome.oracles.traces import generators, moved, replay, snapshot


def test_replayed_generators_draw_the_same_numbers() -> None:
    before = generators()
    assert not moved(before)
    drawn = torch.rand(3)
    assert moved(before)
    replay(before)
    assert torch.equal(torch.rand(3), drawn)
    replay(None)


def test_a_snapshot_restores_buffers_and_generators() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    problem = Problem(lambda v, net, batch: v, lambda v, net, batch: v, torch.tensor(1.0), net)
    restore = snapshot(problem)
    before = {name: buffer.clone() for name, buffer in problem.buffers.items()}
    net(torch.rand(4, 2))
    assert any(not torch.equal(before[name], buffer) for name, buffer in problem.buffers.items())
    state = torch.get_rng_state()
    restore()
    assert all(torch.equal(before[name], buffer) for name, buffer in problem.buffers.items())
    assert not torch.equal(state, torch.get_rng_state())
