"""What is kept of many runs: averages, minima, thinned curves, and the inequalities that hold at every step."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TINY = 1e-6
"""Gradients of this size have a relative rounding error of 1e-9 or so, as the points are of size 1 to 10."""


class Tally:
    """What is kept of the runs: averages, minima, totals and last values up to the end of each, and thinned curves.

    Args:
        ends: K of each run; later steps do not count.
        grid: the steps at which curves are kept.
    """

    def __init__(self, ends: NDArray[np.int64], grid: NDArray[np.int64]) -> None:
        self._ends, self._grid = ends, grid
        self._sums: dict[str, NDArray[np.float64]] = {}
        self._counts = np.zeros(len(ends))
        self._kept: dict[str, list[NDArray[np.float64]]] = {}
        self.least: dict[str, NDArray[np.float64]] = {}
        self.last: dict[str, NDArray[np.float64]] = {}
        self.total: dict[str, NDArray[np.float64]] = {}
        self.steps: list[int] = []

    def add(self, k: NDArray[np.int64], measured: dict[str, Tensor]) -> None:
        """Take in the measurements of consecutive steps."""
        column = k[:, None]
        late = (column >= np.floor(0.8 * self._ends)) & (column <= self._ends)
        kept = np.isin(k, self._grid)
        self._counts += late.sum(0)
        self.steps += k[kept].tolist()
        for name, tensor in measured.items():
            values = tensor.numpy()
            counted = column <= self._ends
            least = np.where(counted, values, np.inf).min(0)
            self.least[name] = np.minimum(self.least.get(name, np.inf), least)
            self.total[name] = self.total.get(name, 0.0) + np.where(counted, values, 0.0).sum(0)
            self._sums[name] = self._sums.get(name, 0.0) + np.where(late, values, 0.0).sum(0)
            at_end = np.where(column == self._ends, values, 0.0).sum(0)
            self.last[name] = self.last.get(name, 0.0) + at_end
            self._kept.setdefault(name, []).append(values[kept])

    def average(self, name: str) -> NDArray[np.float64]:
        """The mean over the last 20 % of the steps of each run."""
        mean: NDArray[np.float64] = self._sums[name] / self._counts
        return mean

    def curve(self, name: str) -> NDArray[np.float64]:
        """The values at the steps of the grid, (steps, runs)."""
        return np.concatenate(self._kept[name])


@dataclass
class Checks:
    """The two inequalities that must hold at every step.

    Attributes:
        steps: how many steps of single runs were looked at.
        active: at how many of them λ > 0.
        error: the largest ‖∇q − ∇q̂‖ / (L‖θ^(T) − θ*‖), where the bound is not rounding error.
        tiny: at how many ‖∇q̂‖ is so small that rounding decides its direction; there the barrier is not judged.
        slack: the least relative slack of the barrier inequality.
        equality: the largest absolute relative slack where λ > 0.
    """

    steps: int = 0
    active: int = 0
    tiny: int = 0
    error: float = 0.0
    slack: float = math.inf
    equality: float = 0.0

    def add(self, measured: dict[str, Tensor]) -> None:
        """Take in the measurements of some steps."""
        bound, active = measured["error_bound"], measured["lam"] > 0
        ratio = torch.where(bound > 1e-10, measured["error"] / bound.clamp(min=1e-10), 0.0)
        tiny = measured["size"] < TINY
        slack = torch.where(tiny, 0.0, measured["slack"])
        self.steps += bound.numel()
        self.active += int(active.sum())
        self.tiny += int(tiny.sum())
        self.error = max(self.error, float(ratio.max()))
        self.slack = min(self.slack, float(slack.min()))
        self.equality = max(self.equality, float(torch.where(active, slack.abs(), 0.0).max()))
