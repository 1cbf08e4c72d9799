"""Memories of continual learning."""

import torch

from bome.continual.memory import Reservoir, Ring


def test_a_ring_draws_each_slot_of_the_first_tasks_at_most_once() -> None:
    ring = Ring(4, 3)
    task, slot = ring.draw(2, 6, torch.Generator().manual_seed(0))
    assert sorted(zip(task.tolist(), slot.tolist(), strict=True)) == [(t, s) for t in range(2) for s in range(3)]
    task, slot = ring.draw(2, 4, torch.Generator().manual_seed(0))
    assert len(set(zip(task.tolist(), slot.tolist(), strict=True))) == 4


def test_a_reservoir_keeps_every_sample_with_the_same_probability() -> None:
    hits = torch.zeros(20)
    for seed in range(600):
        reservoir, generator = Reservoir(5), torch.Generator().manual_seed(seed)
        reservoir.write(0, torch.arange(20), generator)
        hits[reservoir.pairs[:, 1]] += 1
    share = hits / 600  # 1/4 each; a standard deviation is 0.018
    assert float((share - 0.25).abs().max()) < 0.075
    assert len(Reservoir(5)) == 0
