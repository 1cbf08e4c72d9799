"""The small digits, and points of tasks on them, for formulas written anew in NumPy."""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from bome.tasks import Task
from bome.tasks.splits import split_of

Array = NDArray[np.float64]


def losses(z: Array, labels: Any) -> Array:
    """Cross-entropies of scores of shape (n, classes)."""
    found: Array = scipy.special.logsumexp(z, axis=1) - z[np.arange(len(z)), labels]
    return found


def images() -> tuple[Array, NDArray[np.int64]]:
    """All digits with pixels between 0 and 1, and their labels."""
    found = load_digits()
    return np.round(found.images.reshape(-1, 64) * (255 / 16)) / 255, found.target


def somewhere(task: Task, seed: int = 3) -> tuple[Tensor, Any]:
    """A random point in float64: v inside its box, and θ in the form of the task."""
    draw = torch.Generator().manual_seed(seed)
    v = torch.rand(task.problem.v.leaves[0].shape, generator=draw, dtype=torch.float64)
    leaves = [
        x.detach().double() + 0.1 * torch.randn(x.shape, generator=draw).double() for x in task.problem.theta.leaves
    ]
    return v, task.problem.theta.seen(tuple(leaves))


def scaled(seed: int = 0) -> tuple[Array, Array, Any]:
    """All images scaled as those of the split, the split's training rows, and the split."""
    split = split_of("hyperclean-digits", seed)
    pixels, _ = images()
    train = pixels[split.rows.numpy()]
    return (pixels - train.mean()) / (train.std(ddof=1) + 1e-4), split.rows.numpy(), split
