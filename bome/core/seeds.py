"""The one way to seed: equal seeds give equal random numbers, whoever draws them."""

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Start the random numbers of Python, NumPy and torch from a seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - losses may use the old interface, which knows only small seeds
    torch.manual_seed(seed)
