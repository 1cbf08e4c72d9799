"""Saddle games, f = −g: two small ones whose saddle is 0, and a classifier trained against an adversary."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from bome.methods import negative
from bome.problem import Problem
from bome.projections import box
from bome_studies.applications.problems.application import Application, First, Source, Worth, accuracy, mlp, train
from bome_studies.applications.problems.pictures import CLASSES, Pictures

SIZE = 5
REACH, ATTACKS = 0.1, 7


def saddle(pool: Pictures, seed: int) -> Application:
    """v: 5 numbers; θ: 5 numbers; g is strongly convex."""
    return _game(seed, 1.0)


def bilinear(pool: Pictures, seed: int) -> Application:
    """v: 5 numbers; θ: 5 numbers; g is linear in both."""
    return _game(seed, 0.0)


def _game(seed: int, r: float) -> Application:
    draw = torch.Generator().manual_seed(seed)
    A = torch.randn(SIZE, SIZE, generator=draw) + 3 * torch.eye(SIZE)  # noqa: N806
    v, theta = torch.randn(SIZE, generator=draw), torch.randn(SIZE, generator=draw)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        value: Tensor = v @ A @ theta - 0.5 * r * theta.square().sum()
        return value

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        return -outer(v, theta, batch)

    return Application(
        problem=Problem(outer, inner, v, theta),
        first=First(outer_lr=0.02, outer=SGD, inner_lr=0.1),
        judge=lambda: Worth(float(v.norm())),
    )


def adversary(pool: Pictures, seed: int) -> Application:
    """v: MLP 784-64-10; θ: a change of each of 1,000 pictures, at most 0.1 in each pixel."""
    (rows,) = pool.drawn(seed, 1000)
    test = pool.tested(seed, 1000)
    v = mlp(seed + 1, pool.pixels, 64, CLASSES)

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        x, y = batch.data
        return cross_entropy(v(x + theta[batch.rows]), y)

    source = Source(tuple(rows), min(100, len(rows.y)))

    def plain() -> Worth:
        network = mlp(seed + 1, pool.pixels, 64, CLASSES)
        train(network, lambda b: cross_entropy(network(b.data[0]), b.data[1]), source.stream(seed), pool.scaled(1000))
        return attacked(network, test.x, test.y)

    return Application(
        problem=Problem(outer, negative(outer), v, torch.zeros_like(rows.x), project_theta=box(-REACH, REACH)),
        first=First(outer_lr=0.003, inner_lr=50.0),
        judge=lambda: attacked(v, test.x, test.y),
        by_hand={"no adversary": plain},
        inner=source,
        outer=source,
    )


def attacked(network: nn.Module, x: Tensor, y: Tensor) -> Worth:
    """Under steps along the signs of the gradient, each a quarter of what is allowed."""
    change = torch.zeros_like(x)
    for _ in range(ATTACKS):
        change.requires_grad_(True)
        (slope,) = torch.autograd.grad(cross_entropy(network(x + change), y), change)
        change = (change.detach() + REACH / 4 * slope.sign()).clamp(-REACH, REACH)
    with torch.no_grad():
        scores = network(x + change)
        return Worth(float(cross_entropy(scores, y)), accuracy(scores, y))
