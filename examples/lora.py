"""Train a few parameters of a large model (LoRA): the copies that a step needs are of these alone."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

import bome


class LoRA(nn.Module):
    """A frozen linear layer and a trained product of two thin matrices."""

    def __init__(self, layer: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        out: Tensor = self.layer(x) + linear(linear(x, self.down), self.up)
        return out


torch.manual_seed(0)
x, source = torch.randn(600, 64), torch.randint(3, (600,))
x_val = torch.randn(100, 64)
y_val = x_val[:, :4].argmax(1)
y = (x[:, :4].argmax(1) + source) % 4  # only the first source has right labels

net = nn.Sequential(LoRA(nn.Linear(64, 256)), nn.ReLU(), LoRA(nn.Linear(256, 4)))
weights = torch.zeros(3)


def inner(weights: Tensor, net: nn.Module, batch: None) -> Tensor:
    """g: the samples weighted by their source."""
    return (weights.softmax(0)[source] * cross_entropy(net(x), y, reduction="none")).mean()


def outer(weights: Tensor, net: nn.Module, batch: None) -> Tensor:
    """f: the validation set."""
    return cross_entropy(net(x_val), y_val)


trained = [p for p in net.parameters() if p.requires_grad]
problem = bome.Problem(outer, inner, v=weights, theta=net)  # takes the trainable parameters of the module
stepper = bome.Stepper(
    problem,
    bome.BOME(bome.GradientDescent(lr=0.1, steps=5), eta=1.0),
    outer_opt=torch.optim.SGD([weights], lr=5.0),
    inner_opt=torch.optim.AdamW(trained, lr=5e-3),
    oracle="backward",
)
for _ in range(60):
    info = stepper.step()

counts = [sum(p.numel() for p in ps) for ps in (trained, net.parameters())]
print(f"{counts[0]} of {counts[1]} parameters trained; weights of the sources {weights.softmax(0).tolist()}")
