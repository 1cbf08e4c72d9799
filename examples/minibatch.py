"""Minibatches and a weight per sample: find wrong labels by a few trusted ones, a batch of rows at a time."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import bome

torch.manual_seed(0)
centres = 3 * torch.randn(3, 10)
truth, trusted = torch.randint(3, (600,)), torch.randint(3, (60,))
x, x_trusted = centres[truth] + torch.randn(600, 10), centres[trusted] + torch.randn(60, 10)
wrong = torch.rand(600) < 0.4
y = torch.where(wrong, (truth + 1) % 3, truth)

net, weights = nn.Linear(10, 3), bome.PerSample(600, init=0.5)


def inner(w: Tensor, net: nn.Linear, batch: list[Tensor]) -> Tensor:
    """g: fit the doubtful samples; `w` holds the rows of this batch only."""
    x, y, _ = batch
    return (w * cross_entropy(net(x), y, reduction="none")).mean()


def outer(w: Tensor, net: nn.Linear, batch: None) -> Tensor:
    """f: do well on the trusted samples."""
    return cross_entropy(net(x_trusted), trusted)


problem = bome.Problem(outer, inner, v=weights, theta=net, project_v=bome.box(0, 1))
stepper = bome.Stepper(
    problem,
    bome.BOME(bome.GradientDescent(lr=0.1, steps=5)),
    outer_opt=bome.RowSGD([weights.values], lr=10.0, momentum=0.9),  # momentum for rows that are seldom touched
    inner_opt=torch.optim.SGD(net.parameters(), lr=0.1),
)
loader = DataLoader(bome.Indexed(TensorDataset(x, y)), batch_size=60, shuffle=True)  # batches (x, y, indices)
for _ in range(20):
    for batch in loader:
        stepper.step(inner=batch)
stepper.settle()  # rows that were not in the last batches

learned = weights.values
print(f"mean weight of wrong labels {learned[wrong].mean():.2f}, of right ones {learned[~wrong].mean():.2f}")
