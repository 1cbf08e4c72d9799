"""A product with the Hessian of the reduced ResNet: the batch normalisation of this library beside PyTorch's own."""

import copy
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bome.continual.networks import ReducedResNet
from bome.continual.normalisation import BatchNorm
from timings.table import TIMING_HEADER, show, timing_row
from timings.timing import compare

CLASSES, SAMPLES = 85, 50


def plain(network: nn.Module) -> nn.Module:
    """A copy of a network with PyTorch's normalisation."""
    made = copy.deepcopy(network)
    for module in made.modules():
        for name, child in module.named_children():
            if isinstance(child, BatchNorm):
                setattr(module, name, nn.BatchNorm2d(child.num_features))
    return made


def product(network: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Hz, with the gradient as z."""
    leaves = tuple(network.parameters())
    gradient = torch.autograd.grad(cross_entropy(network(x), y), leaves, create_graph=True)
    return torch.autograd.grad(gradient, leaves, tuple(each.detach() for each in gradient))


def main() -> None:
    """Measure and print."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(SAMPLES, 32, 32, 3, generator=draw).permute(0, 3, 1, 2)
    y = torch.randint(CLASSES, (SAMPLES,), generator=draw)
    network = ReducedResNet(CLASSES)
    candidates = {
        "torch.nn.BatchNorm2d": partial(product, plain(network), x, y),
        "bome.continual.normalisation.BatchNorm": partial(product, network, x, y),
    }
    rows = [timing_row(name, t) for name, t in compare(candidates, rounds=15).items()]
    show(f"Hz of the reduced ResNet, {SAMPLES} samples, {torch.get_num_threads()} threads", TIMING_HEADER, rows)
