"""A learned loss: v tells which class is called which; 45 % of the labels have moved to the next class."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome.problem import Problem
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, mlp, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures, next_class

MOVED = 0.45


def learned_loss(pool: Pictures, seed: int) -> Application:
    """v: 10 × 10 scores; θ: MLP 784-64-10."""
    rows, clean = pool.drawn(seed, 1500, 300)
    labels, test = next_class(rows.y, MOVED, seed), pool.tested(seed, 2000)
    v, theta = 4 * torch.eye(CLASSES), mlp(seed + 1, pool.pixels, 64, CLASSES)
    start = deepcopy(theta)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        return cross_entropy(theta(clean.x), clean.y)

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        called: Tensor = theta(x).softmax(-1) @ v.softmax(-1)
        return -called.gather(1, y.unsqueeze(1)).log().mean()

    source = Source((rows.x, labels), min(100, len(labels)))

    def trained(loss: Any) -> Worth:
        network = deepcopy(start)
        train(network, lambda batch: loss(network, batch), source.stream(seed + 2), pool.scaled(600))
        with torch.no_grad():
            return Worth(float(outer(v, network, None)), accuracy(network(test.x), test.y))

    def right_matrix() -> Worth:
        shares = (1 - MOVED) * torch.eye(CLASSES) + MOVED * torch.eye(CLASSES).roll(1, 1)
        return trained(lambda network, batch: inner(shares.log().clamp(min=-30), network, batch))

    def clean_rows_alone() -> Worth:
        return Worth(float("nan"), trained(lambda network, batch: outer(v, network, batch)).test)

    return Application(
        problem=Problem(outer, inner, v, theta),
        first=First(outer_lr=0.03),
        judge=lambda: trained(lambda network, batch: inner(v, network, batch)),
        by_hand={"the right matrix": right_matrix, "rows of f alone": clean_rows_alone},
        inner=source,
    )
