"""Networks of the continual-learning tasks: a base network whose features a controller modulates, task by task.

The contextual transformation network (Pham, Liu, Sahoo, Hoi; 2021): the controller turns the embedding of a task into a
scale γ and a shift β for the features a of the base network, each of Euclidean length 1, and the network goes on with

    relu(a) + relu(γ̂ ⊙ a + β̂).

The parameters of the controller are v, those of the base network θ. Without a controller the features are relu(a), as
the strategies without one have it.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from bome.continual.normalisation import BatchNorm

Modulation = tuple[Tensor, Tensor]
"""γ̂ and β̂ of one layer, a row for each sample."""


class Controller(nn.Module):
    """Scales and shifts of every modulated layer from the embedding of a task.

    Args:
        tasks: how many there are.
        width: entries of an embedding.
        layers: features of each modulated layer.
        constant_norms: whether no derivative flows through the norms of γ and β, as published for images in colour.
    """

    def __init__(self, tasks: int, width: int, layers: Sequence[int], *, constant_norms: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tasks, width)
        self.films = nn.ModuleList(nn.Linear(width, 2 * features) for features in layers)
        self._constant_norms = constant_norms
        if not constant_norms:
            self.films.apply(xavier)

    def forward(self, task: Tensor) -> list[Modulation]:
        """The modulation of each layer, for the task of each sample."""
        embedded = self.embedding(task)
        modulations = []
        for film in self.films:
            gamma, beta = film(embedded).chunk(2, dim=1)
            modulations.append((self._unit(gamma), self._unit(beta)))
        return modulations

    def _unit(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=1, keepdim=True).detach() if self._constant_norms else normalize(x, dim=1)


class Mlp(nn.Module):
    """Fully connected layers, of which all but the last are modulated."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.layers.apply(xavier)

    @property
    def modulated(self) -> list[int]:
        """The features of each modulated layer."""
        return [layer.out_features for layer in self.layers[:-1] if isinstance(layer, nn.Linear)]

    def forward(self, x: Tensor, modulations: Sequence[Modulation] | None = None) -> Tensor:
        """The scores of all classes."""
        *hidden, last = self.layers
        for i, layer in enumerate(hidden):
            x = modulate(layer(x), None if modulations is None else modulations[i])
        scores: Tensor = last(x)
        return scores


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; the rectifier at the end is left to the caller."""

    def __init__(self, before: int, features: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            convolution(before, features, stride),
            BatchNorm(features),
            nn.ReLU(),
            convolution(features, features),
            BatchNorm(features),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != features:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, features, 1, stride=stride, bias=False), BatchNorm(features)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Without the final rectifier."""
        out: Tensor = self.main(x) + self.shortcut(x)
        return out


class ReducedResNet(nn.Module):
    """ResNet-18 with a third of the usual features; the map of the last stage is modulated.

    With a controller no block ends with a rectifier, as published; without one every block does.

    Args:
        classes: scores to give.
        features: of the first stage; each further one has twice as many.
        rectified: whether every block ends with a rectifier.
    """

    def __init__(self, classes: int, features: int = 20, *, rectified: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            convolution(3, features), BatchNorm(features), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
        )
        blocks: list[nn.Module] = []
        before = features
        for stage in range(4):
            width = features * 2**stage
            for number in range(2):
                blocks.append(Block(before, width, 2 if stage and not number else 1))
                before = width
                blocks += [nn.ReLU()] if rectified else []
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    @property
    def modulated(self) -> list[int]:
        """The features of each modulated layer."""
        return [self.head.in_features]

    def forward(self, x: Tensor, modulations: Sequence[Modulation] | None = None) -> Tensor:
        """The scores of all classes."""
        maps = self.blocks(self.stem(x))
        if modulations is None:
            maps = relu(maps)
        else:
            gamma, beta = modulations[0]
            maps = modulate(maps, (gamma[:, :, None, None], beta[:, :, None, None]))
        scores: Tensor = self.head(maps.mean(dim=(2, 3)))
        return scores


def modulate(features: Tensor, modulation: Modulation | None) -> Tensor:
    """relu(a) + relu(γ̂ ⊙ a + β̂), or relu(a) without a modulation."""
    if modulation is None:
        return relu(features)
    gamma, beta = modulation
    return relu(features) + relu(torch.addcmul(beta, gamma, features))


def convolution(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    """3 x 3, without a bias."""
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)


def xavier(module: nn.Module) -> None:
    """Uniform weights of Glorot and Bengio, and no bias, for a linear map."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
