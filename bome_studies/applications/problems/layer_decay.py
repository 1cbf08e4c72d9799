"""Decay of each layer: v has the logarithm of a penalty for the weights of each layer; 30 % of the labels are wrong."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome.problem import Problem
from bome.projections import box
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, mlp, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures, another_class

LOW, START, HIGH = -12.0, -7.0, 0.0


def layer_decay(pool: Pictures, seed: int) -> Application:
    """v: 3 numbers; θ: MLP 784-64-64-10."""
    rows, clean = pool.drawn(seed, 500, 500)
    labels, test = another_class(rows.y, 0.3, seed), pool.tested(seed, 2000)
    v = torch.full((3,), START)
    theta = mlp(seed + 1, pool.pixels, 64, 64, CLASSES)
    start = deepcopy(theta)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        return cross_entropy(theta(clean.x), clean.y)

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        sizes = torch.stack([layer.weight.square().sum() for layer in theta[::2]])
        penalty: Tensor = (v.exp() * sizes).sum()
        return cross_entropy(theta(x), y) + penalty

    source = Source((rows.x, labels), min(100, len(labels)))

    def worth(v: Tensor) -> Worth:
        network = deepcopy(start)
        train(network, lambda batch: inner(v, network, batch), source.stream(seed + 2), pool.scaled(1000))
        with torch.no_grad():
            return Worth(float(outer(v, network, None)), accuracy(network(test.x), test.y))

    def one_decay() -> Worth:
        return min(worth(torch.full((3,), value)) for value in torch.arange(LOW, HIGH, 1.5).tolist())

    return Application(
        problem=Problem(outer, inner, v, theta, project_v=box(LOW, HIGH)),
        first=First(outer_lr=0.05),
        judge=lambda: worth(v),
        by_hand={"one decay for all": one_decay},
        inner=source,
    )
