"""A model sharded by FSDP2: `torchrun --nproc-per-node 2 examples/fsdp2.py`, by `bome.run` as in one process.

With CHECKPOINTS=runs/sharded and `torchrun --max-restarts 3` killed ranks start again and continue to the same
bits; docs/ranks.md says more.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

import bome

if "RANK" in os.environ:
    dist.init_process_group("gloo")
else:  # not under torchrun
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
rank, world, folder = dist.get_rank(), dist.get_world_size(), os.environ.get("CHECKPOINTS")

torch.manual_seed(0)
inputs, truth = torch.randn(96, 8), torch.randn(8, 1)
outputs, bad = inputs @ truth, torch.arange(96) % 3 == 0  # every third sample comes from a source that is off
outputs[bad] += torch.randn(32, 1) * 5
shares = inputs.view(-1, world, 8)[:, rank], outputs.view(-1, world, 1)[:, rank], bad.long().view(-1, world)[:, rank]
held_out = torch.randn(64, 8)[rank::world]

net, trust = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)), torch.zeros(2)
for part in (net[0], net[2], net):
    fully_shard(part)


def inner(trust: Tensor, net: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """g: squared errors of this rank's samples, each as far as its source is trusted."""
    x, y, source = batch
    errors: Tensor = net(x) - y
    return (trust.softmax(0)[source, None] * errors.square()).mean()


def outer(trust: Tensor, net: nn.Module, x: Tensor) -> Tensor:
    """f: squared errors of this rank's part of the validation set."""
    return nn.functional.mse_loss(net(x), x @ truth)


result = bome.run(
    bome.Problem(outer, inner, v=trust, theta=net),
    bome.BOME(bome.GradientDescent(lr=0.1, steps=5)),
    outer_opt=torch.optim.Adam([trust], lr=0.2),
    inner_opt=torch.optim.Adam(net.parameters(), lr=0.03),
    data=bome.Data(inner=bome.data.Constant(shares), outer=bome.data.Constant(held_out)),
    stop=bome.MaxSteps(40),
    record=bome.Record(Path(folder), save_every=10, resume=True) if folder else None,
)
if rank == 0:
    print(f"{world} ranks, trust {[round(t, 4) for t in trust.softmax(0).tolist()]}, f {result.f:.4f}")
dist.destroy_process_group()
