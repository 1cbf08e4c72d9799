"""A mixture that ranks learn together from the batches that one process has as a whole."""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bome import DataMixture
from bome.mixture import GPT

STEPS, LENGTH, VOCABULARY = 4, 8, 16
SIZES = {"like": 4, "other": 2, "junk": 4}
"""Sequences of each source in a batch of one process."""


def batches(size: int, seed: int, rank: int, world: int) -> list[Tensor]:
    """The share of a rank in the batches of a source."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(VOCABULARY, (STEPS, size, LENGTH + 1), generator=generator)
    return list(drawn[:, rank::world])


def learned(kind: str, rank: int = 0, world: int = 1) -> dict[str, list[float]]:
    """The weights of the sources, and what the model says at the end."""
    torch.manual_seed(0)
    model: Any = GPT(VOCABULARY, LENGTH, width=8, layers=2, heads=2)
    if kind == "ddp":
        model = DistributedDataParallel(model)
    if kind == "fsdp":
        for part in (*model.blocks, model):
            fully_shard(part)
    sources = {name: batches(size, seed, rank, world) for seed, (name, size) in enumerate(SIZES.items(), 1)}
    optimiser = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    mixture = DataMixture(steps=STEPS, warmup=2, inner_steps=3, length=LENGTH)
    mixture.fit(model, sources, batches(6, 9, rank, world), inner_opt=optimiser)
    with torch.no_grad():
        # Not θ itself: attention ignores the biases of its keys, and Adam makes steps of their rounding errors.
        logits = model(torch.arange(LENGTH)[None])
    return {"weights": list(mixture.weights_.values()), "logits": logits.flatten().tolist()}
