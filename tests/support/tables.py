"""A table with wrong labels, for the tests of the verbs."""

from typing import Any

import numpy as np
import pandas as pd

CLEAN = ["clean", "train.csv", "--trusted", "trusted.csv", "--label", "y", "--out", "out"]


def noisy(n: int, share: float, seed: int) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Two clouds of points with some labels exchanged, and which those are."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, n)
    frame = pd.DataFrame(random.standard_normal((n, 3)) + 3 * truth[:, None], columns=["a", "b", "c"])
    wrong = random.random(n) < share
    frame["kind"] = random.choice(["u", "v"], n)
    frame["y"] = np.array(["-1", "=yes()"], dtype=object)[np.where(wrong, 1 - truth, truth)]
    return frame, wrong
