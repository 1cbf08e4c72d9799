"""ANIL: features v for few-shot regression, with a linear head for each of 25 tasks as θ (Raghu and others, 2020)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bome.problem import Problem
from bome_studies.applications.problems.application import Application, First, Worth, mlp
from bome_studies.applications.problems.pictures import Pictures

WIDTH, POINTS, RIDGE = 40, 10, 0.01


class Waves(NamedTuple):
    """Tasks A sin(x + P): inputs and values, points to learn from and others to be asked for."""

    x: Tensor
    y: Tensor
    asked_x: Tensor
    asked_y: Tensor


def waves(seed: int, tasks: int) -> Waves:
    """Random tasks."""
    draw = torch.Generator().manual_seed(seed)
    amplitude = 0.1 + 4.9 * torch.rand(tasks, 1, generator=draw)
    phase = torch.pi * torch.rand(tasks, 1, generator=draw)
    x = 10 * torch.rand(tasks, 2 * POINTS, generator=draw) - 5
    y = amplitude * torch.sin(x + phase)
    return Waves(x[:, :POINTS], y[:, :POINTS], x[:, POINTS:], y[:, POINTS:])


def features(network: Any, x: Tensor) -> Tensor:
    """Those of each point, with a 1 beside them."""
    seen = network(x.unsqueeze(-1))
    return torch.cat([seen, torch.ones_like(seen[..., :1])], -1)


def ridge(network: Any, tasks: Waves) -> Tensor:
    """The heads that minimise g, in closed form."""
    rows = features(network, tasks.x)
    normal = rows.mT @ rows / POINTS + RIDGE * torch.eye(WIDTH + 1)
    heads: Tensor = torch.linalg.solve(normal, (rows.mT @ tasks.y.unsqueeze(-1) / POINTS).squeeze(-1))
    return heads


def errors(network: Any, heads: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The mean squared error of each task."""
    guess = (features(network, x) @ heads.unsqueeze(-1)).squeeze(-1)
    return (guess - y).square().mean(-1)


def anil(pool: Pictures, seed: int) -> Application:
    """v: MLP 1-40-40 with ReLU; θ: 25 heads of 41 numbers."""
    tasks, new = waves(seed, 25), waves(seed + 1_000_000, 500)
    v = mlp(seed + 1, 1, WIDTH, WIDTH).append(nn.ReLU())

    def outer(v: Any, theta: Any, batch: Any) -> Tensor:
        return errors(v, theta, tasks.asked_x, tasks.asked_y).mean()

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        size: Tensor = theta.square().sum()
        return errors(v, theta, tasks.x, tasks.y).sum() + RIDGE * size

    def judge() -> Worth:
        with torch.no_grad():
            return Worth(float(errors(v, ridge(v, new), new.asked_x, new.asked_y).mean()))

    return Application(
        problem=Problem(outer, inner, v, torch.zeros(25, WIDTH + 1)),
        first=First(outer_lr=0.01, inner_lr=0.05),
        judge=judge,
    )
