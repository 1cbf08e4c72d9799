"""A small search of architectures: for each of two layers a mixture of four operations (Liu and others, 2019)."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bome.problem import Problem
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, seeded, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures

WIDTH, LAYERS, OPERATIONS = 32, 2, 4
MOMENTUM, EPOCHS = 0.9, 8
LR = 0.03


class Layer(nn.Module):
    """ReLU(a h), sin(5 b h), h and 0, mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h: Tensor, shares: Tensor) -> Tensor:
        """With a share for each of the four; the last brings nothing."""
        return shares[0] * torch.relu(self.a(h)) + shares[1] * torch.sin(5 * self.b(h)) + shares[2] * h


class Searched(nn.Module):
    """A network whose layers between the first and the last are searched for."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(pixels, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: Tensor, shares: Tensor) -> Tensor:
        """With a row of shares for each layer."""
        h = self.first(x)
        for layer, row in zip(self.layers, shares, strict=True):
            h = layer(h, row)
        scores: Tensor = self.last(h)
        return scores


def operations(pool: Pictures, seed: int) -> Application:
    """v: 2 × 4 scores; θ: a network of two searched layers of 32."""
    rows, others = pool.drawn(seed, 1500, 1500)
    test = pool.tested(seed, 2000)
    v = torch.zeros(LAYERS, OPERATIONS)
    with seeded(seed + 1):
        theta = Searched(pool.pixels)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        return cross_entropy(theta(x, v.softmax(-1)), y)

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        return cross_entropy(theta(x, v.softmax(-1)), y)

    together = Source(
        (torch.cat([rows.x, others.x]), torch.cat([rows.y, others.y])), min(100, len(rows.y))
    )  # fmt: skip

    def worth(choice: Sequence[int]) -> Worth:
        shares = torch.eye(OPERATIONS)[list(choice)]
        with seeded(seed + 2):
            network = Searched(pool.pixels)
        used = nn.ModuleList([network.first, network.last])  # the others get no gradient, or no part in the result
        for layer, operation in zip(network.layers, choice, strict=True):
            used.extend(child for child in list(layer.children())[operation : operation + 1])
        steps = EPOCHS * together.parts

        def loss(batch: Any) -> Tensor:
            x, y = batch.data
            return cross_entropy(network(x, shares), y)

        train(used, loss, together.stream(seed + 3), steps, LR, MOMENTUM)
        with torch.no_grad():
            scores = network(test.x, shares)
            return Worth(float(cross_entropy(scores, test.y)), accuracy(scores, test.y))

    def judge() -> Worth:
        """The mean over the best operations where several are equal: a choice by lot."""
        if not bool(v.isfinite().all()):
            return Worth(float("inf"))
        best = [(row == row.max()).nonzero()[:, 0].tolist() for row in v]
        return _mean([worth(choice) for choice in product(*best)])

    def best_of_all() -> Worth:
        return min(worth(choice) for choice in product(range(OPERATIONS), repeat=LAYERS))

    size = min(100, len(rows.y))
    return Application(
        problem=Problem(outer, inner, v, theta),
        first=First(outer_lr=0.05, inner_lr=LR, momentum=MOMENTUM),
        judge=judge,
        by_hand={"best of all 16": best_of_all},
        inner=Source(tuple(rows), size),
        outer=Source(tuple(others), size),
    )


def _mean(worths: Sequence[Worth]) -> Worth:
    tests = [worth.test for worth in worths if worth.test is not None]
    return Worth(sum(worth.F for worth in worths) / len(worths), sum(tests) / len(tests))
