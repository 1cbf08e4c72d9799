"""A compiled module: first-order methods differentiate it once at a time, so `torch.compile` works as in training."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import bome

torch.manual_seed(0)
x, y, group = torch.randn(96, 8), torch.randint(3, (96,)), torch.randint(4, (96,))
x_val, y_val = torch.randn(48, 8), torch.randint(3, (48,))

plain = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))
net = torch.compile(plain, backend="aot_eager")  # without a backend named: "inductor", which needs a C++ compiler
weights = torch.zeros(4)


def inner(weights: Tensor, net: nn.Module, batch: None) -> Tensor:
    """g: the samples weighted by their group."""
    return (weights.softmax(0)[group] * cross_entropy(net(x), y, reduction="none")).mean()


def outer(weights: Tensor, net: nn.Module, batch: None) -> Tensor:
    """f: the validation set."""
    loss: Tensor = cross_entropy(net(x_val), y_val)
    return loss


stepper = bome.Stepper(
    bome.Problem(outer, inner, v=weights, theta=net),
    bome.BOME(bome.GradientDescent(lr=0.1, steps=5)),
    outer_opt=torch.optim.SGD([weights], lr=1.0),
    inner_opt=torch.optim.SGD(plain.parameters(), lr=0.1),
    oracle="backward",  # calls the module as it is
)
for _ in range(10):
    info = stepper.step()

print(f"validation loss {info.f:.3f}, weights {weights.softmax(0).tolist()}")
