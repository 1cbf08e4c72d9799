"""Any optimiser of torch with its parameter groups and schedulers, for v and for θ; `run` in place of your own loop."""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR

import bome

torch.manual_seed(0)
x, x_val = torch.randn(40, 20), torch.randn(200, 20)
truth = torch.zeros(20, 1).index_fill(0, torch.arange(3), 1.0)
y, y_val = x @ truth + torch.randn(40, 1), x_val @ truth + torch.randn(200, 1)

log_decay, net = torch.zeros(20), nn.Linear(20, 1)  # a weight decay for each feature


def inner(log_decay: Tensor, net: nn.Linear, batch: None) -> Tensor:
    """g: fit the few noisy samples."""
    return mse_loss(net(x), y) + (log_decay.exp() * net.weight**2).sum()


def outer(log_decay: Tensor, net: nn.Linear, batch: None) -> Tensor:
    """f: do well on the validation set."""
    return mse_loss(net(x_val), y_val)


steps = 300
outer_opt = torch.optim.Adam([log_decay], lr=0.1)
inner_opt = torch.optim.AdamW(
    [{"params": [net.weight], "lr": 0.02}, {"params": [net.bias], "lr": 0.05}], weight_decay=0.0
)
result = bome.run(
    bome.Problem(outer, inner, v=log_decay, theta=net, project_v=bome.box(-5, 0)),
    bome.BOME(bome.GradientDescent(lr=0.05, steps=10)),
    outer_opt=outer_opt,
    inner_opt=inner_opt,
    schedulers=[CosineAnnealingLR(outer_opt, steps), LinearLR(inner_opt, 1.0, 0.1, total_iters=steps)],
    stop=bome.MaxSteps(steps),
)

decay = log_decay.exp()
print(f"weight decay of useful features {decay[:3].mean():.3f}, of useless ones {decay[3:].mean():.3f}")
print(f"validation loss {result.f:.3f}; {result.certificate.verdict}")
