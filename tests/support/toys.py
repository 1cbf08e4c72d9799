"""Points of the toy tasks, and their losses there."""

import torch
from torch import Tensor

from bome.core.trees import Pair
from bome.tasks import Task

VARIANTS = {
    "coreset": ("code", "paper"),
    "minimax": ("code", "paper"),
    "lls": ("code", "paper", "corrected"),
    "quadratic": ("code", "isotropic"),
    "sine": ("code",),
}


def tensor(*values: float) -> Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


def loss(task: Task, which: str, v: Tensor, theta: Tensor) -> float:
    loss = task.problem.outer if which == "f" else task.problem.inner
    return float(loss(v, theta, None))


def random_points(task: Task, count: int, scale: float = 2.0) -> list[Pair]:
    generator = torch.Generator().manual_seed(0)
    v, theta = (leaves[0] for leaves in task.problem.point)

    def draw(like: Tensor) -> Tensor:
        return scale * torch.randn(like.shape, generator=generator, dtype=like.dtype)

    return [Pair((draw(v),), (draw(theta),)) for _ in range(count)]
