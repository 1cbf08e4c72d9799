"""Gradient accumulation: a batch in parts, with one multiplier λ for the whole; the step is that of the large batch."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import bome

torch.manual_seed(0)
x, y, group = torch.randn(64, 8), torch.randint(3, (64,)), torch.randint(4, (64,))
x_val, y_val = torch.randn(32, 8), torch.randint(3, (32,))


def inner(weights: Tensor, net: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """g: the samples weighted by their group."""
    x, y, group = batch
    return (weights.softmax(0)[group] * cross_entropy(net(x), y, reduction="none")).mean()


def outer(weights: Tensor, net: nn.Module, batch: None) -> Tensor:
    """f: the validation set."""
    return cross_entropy(net(x_val), y_val)


def trained(parts: int) -> Tensor:
    """The weights after 20 steps whose inner batch comes in so many parts."""
    torch.manual_seed(1)
    weights, net = torch.zeros(4), nn.Linear(8, 3)
    stepper = bome.Stepper(
        bome.Problem(outer, inner, v=weights, theta=net),
        bome.BOME(bome.GradientDescent(lr=0.1, steps=5)),
        outer_opt=torch.optim.SGD([weights], lr=10.0),
        inner_opt=torch.optim.SGD(net.parameters(), lr=0.1),
    )
    whole = (x, y, group)
    batch = bome.MicroBatches(zip(*(t.view(parts, -1, *t.shape[1:]) for t in whole), strict=True))
    for _ in range(20):
        stepper.step(inner=batch)
    return weights


one, four = trained(1), trained(4)
print(f"largest difference between one part and four: {(one - four).abs().max():.1e}, weights {one.tolist()}")
