"""The one way to seed, and the states of all random generators: equal ones give equal random numbers."""

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Start the random numbers of Python, NumPy and torch from a seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - losses may use the old interface, which knows only small seeds
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Where the generators of Python, NumPy and torch stand, as checkpoints hold it."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - the state of users' code is saved, not used here
    return {
        "python": random.getstate(),
        "numpy": [kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random(state: dict[str, Any]) -> None:
    """Put them back there."""
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
