"""Several processes with DDP: `torchrun --nproc-per-node 2 examples/ddp.py`. The lines of the step are the same."""

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import bome

if "RANK" in os.environ:  # under torchrun
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # all ranks make the same data, and keep their own part
x, y, group = torch.randn(64, 8), torch.randint(3, (64,)), torch.randint(4, (64,))
x_val, y_val = torch.randn(32, 8), torch.randint(3, (32,))
mine = slice(rank, None, world)

net, weights = DistributedDataParallel(nn.Linear(8, 3)), torch.zeros(4)


def inner(weights: Tensor, net: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """g: the samples of this rank, weighted by their group; the mean over the ranks is minimised."""
    x, y, group = batch
    return (weights.softmax(0)[group] * cross_entropy(net(x), y, reduction="none")).mean()


def outer(weights: Tensor, net: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """f: the validation samples of this rank."""
    x, y = batch
    return cross_entropy(net(x), y)


stepper = bome.Stepper(
    bome.Problem(outer, inner, v=weights, theta=net),
    bome.BOME(bome.GradientDescent(lr=0.1, steps=5)),
    outer_opt=torch.optim.SGD([weights], lr=10.0),
    inner_opt=torch.optim.SGD(net.parameters(), lr=0.1),
)
for _ in range(20):
    info = stepper.step(inner=(x[mine], y[mine], group[mine]), outer=(x_val[mine], y_val[mine]))

if rank == 0:
    print(f"{world} ranks, weights {[round(w, 4) for w in weights.tolist()]}, λ {info.lam:.4f}")
dist.destroy_process_group()
