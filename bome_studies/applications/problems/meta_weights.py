"""Meta-Weight-Net: a small network v tells from the loss of a row how much it counts; half of the labels are wrong."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bome.problem import Problem
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, mlp, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures, another_class


def meta_weights(pool: Pictures, seed: int) -> Application:
    """v: MLP 1-32-1 with a sigmoid; θ: MLP 784-100-10."""
    rows, clean = pool.drawn(seed, 3000, 200)
    labels, test = another_class(rows.y, 0.5, seed), pool.tested(seed, 2000)
    v = mlp(seed + 1, 1, 32, 1).append(nn.Sigmoid())

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        return cross_entropy(theta(clean.x), clean.y)

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        losses = cross_entropy(theta(x), y, reduction="none")
        weights: Tensor = v(losses.detach().unsqueeze(1)).squeeze(1)
        return (weights * losses).sum() / weights.sum()

    def fresh() -> nn.Sequential:
        return mlp(seed + 3, pool.pixels, 100, CLASSES)

    source = Source((rows.x, labels), min(100, len(labels)))

    def judge() -> Worth:
        network = fresh()
        train(network, lambda batch: inner(v, network, batch), source.stream(seed + 4), pool.scaled(750))
        with torch.no_grad():
            return Worth(float(outer(v, network, None)), accuracy(network(test.x), test.y))

    def clean_rows_alone() -> Worth:
        network = fresh()
        train(network, lambda batch: outer(v, network, batch), source.stream(seed + 4), pool.scaled(750))
        with torch.no_grad():
            return Worth(float("nan"), accuracy(network(test.x), test.y))

    return Application(
        problem=Problem(outer, inner, v, mlp(seed + 2, pool.pixels, 100, CLASSES)),
        first=First(outer_lr=0.01, inner_steps=5),
        judge=judge,
        by_hand={"rows of f alone": clean_rows_alone},
        inner=source,
    )
