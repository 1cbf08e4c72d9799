"""The smallest use: your own loop, your own module, any optimiser. Learn the strength of weight decay."""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import bome

torch.manual_seed(0)
x, x_val = torch.randn(30, 20), torch.randn(200, 20)
truth = torch.zeros(20, 1).index_fill(0, torch.arange(3), 1.0)
y, y_val = x @ truth + torch.randn(30, 1), x_val @ truth + torch.randn(200, 1)

log_decay, net = torch.zeros(()), nn.Linear(20, 1)


def inner(log_decay: Tensor, net: nn.Linear, batch: None) -> Tensor:
    """g: fit the few noisy samples, with weight decay."""
    return mse_loss(net(x), y) + log_decay.exp() * (net.weight**2).sum()


def outer(log_decay: Tensor, net: nn.Linear, batch: None) -> Tensor:
    """f: do well on the validation set."""
    return mse_loss(net(x_val), y_val)


problem = bome.Problem(outer, inner, v=log_decay, theta=net)
stepper = bome.Stepper(
    problem,
    bome.BOME(bome.GradientDescent(lr=0.05, steps=20)),
    outer_opt=torch.optim.Adam([log_decay], lr=0.05),
    inner_opt=torch.optim.SGD(net.parameters(), lr=0.05),
)
for _ in range(300):
    info = stepper.step()

print(f"weight decay {log_decay.exp():.3f}, validation loss {info.f:.3f}, gap of the inner problem {info.q:.1e}")
