"""Stop and go on: a run writes checkpoints, and continues from the newest one to the same bits."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

import bome

torch.manual_seed(0)
x, x_val, truth = torch.randn(200, 5), torch.randn(100, 5), torch.randn(5, 1)
y, y_val = x @ truth + torch.randn(200, 1), x_val @ truth


def inner(log_decay: Tensor, theta: Tensor, batch: bome.data.Batch) -> Tensor:
    """g: ridge regression."""
    x, y = batch.data
    return mse_loss(x @ theta, y) + log_decay.exp() * theta.square().sum()


def outer(log_decay: Tensor, theta: Tensor, batch: None) -> Tensor:
    """f: the validation set."""
    return mse_loss(x_val @ theta, y_val)


def train(steps: int, folder: Path) -> tuple[Tensor, Tensor]:
    """Run up to `steps` steps, or go on from where the folder stands."""
    log_decay, theta = torch.zeros(()), torch.zeros(5, 1)
    bome.run(
        bome.Problem(outer, inner, v=log_decay, theta=theta),
        bome.BOME(bome.GradientDescent(lr=0.05, steps=5)),
        outer_opt=torch.optim.Adam([log_decay], lr=0.05),
        data=bome.Data(inner=bome.Minibatches((x, y), 20, seed=1)),  # streams know their place, too
        stop=bome.MaxSteps(steps),
        record=bome.Record(folder, save_every=10, resume=True),
    )
    return log_decay, theta


with tempfile.TemporaryDirectory() as folder:
    whole = train(60, Path(folder) / "whole")
    train(25, Path(folder) / "parts")
    parts = train(60, Path(folder) / "parts")

print("the same bits:", all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True)))
