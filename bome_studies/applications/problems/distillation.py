"""Distillation: 100 images, from which a linear model learns as much as it can (Wang and others, 2018)."""

from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome.data import Constant
from bome.problem import Problem
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, mlp, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures

EACH, PENALTY, MODELS = 10, 1e-3, 2


def distillation(pool: Pictures, seed: int) -> Application:
    """v: the images, which start as real ones; θ: a linear model."""
    (rows,) = pool.drawn(seed, 5000)
    test = pool.tested(seed, 2000)
    each = min(EACH, int(rows.y.bincount(minlength=CLASSES).min()))
    chosen = torch.cat([(rows.y == label).nonzero()[:each, 0] for label in range(CLASSES)])
    v, labels = rows.x[chosen].clone(), rows.y[chosen]

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        return cross_entropy(theta(x), y)

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        size = torch.stack([parameter.square().sum() for parameter in theta.parameters()]).sum()
        return cross_entropy(theta(v), labels) + PENALTY * size

    def worth(number: int) -> Worth:
        network = mlp(seed + 10 + number, pool.pixels, CLASSES)
        train(network, lambda batch: inner(v, network, batch), Constant(), pool.scaled(300))
        with torch.no_grad():
            return Worth(float(cross_entropy(network(rows.x), rows.y)), accuracy(network(test.x), test.y))

    def judge() -> Worth:
        worths = [worth(number) for number in range(MODELS)]
        return Worth(fmean(each.F for each in worths), fmean(each.test or 0.0 for each in worths))

    return Application(
        problem=Problem(outer, inner, v, mlp(seed + 1, pool.pixels, CLASSES)),
        first=First(outer_lr=0.01),
        judge=judge,
        outer=Source(tuple(rows), min(256, len(rows.y))),
    )
