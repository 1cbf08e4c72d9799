"""Brute force over x, to check the optima that are known."""

import math

import numpy as np
import torch
from scipy.optimize import differential_evolution, minimize

from bome.tasks.bolib.record import Record, point
from bome.tasks.bolib.search import best_answer, reach


def lowest_on_a_grid(record: Record, nx: int = 1201, ny: int = 4001) -> float:
    """The lowest f at the inner minima, for numbers x and y, with no other means than a table of all values."""
    ((x_low, x_high),), ((y_low, y_high),) = (np.round(sides, 9) for sides in reach(record))
    x = torch.linspace(x_low, x_high, nx, dtype=torch.float64).reshape(1, nx, 1)
    y = torch.linspace(y_low, y_high, ny, dtype=torch.float64).reshape(1, 1, ny)
    f, g = (loss(x, y).expand(nx, ny).clone() for loss in (record.f, record.g))
    for c in record.inner_excess(x, y):
        g[c.expand(nx, ny) > 1e-9] = math.inf
    for c in record.outer_excess(x, y):
        f[c.expand(nx, ny) > 1e-9] = math.inf
    f[(g > g.amin(1, keepdim=True) + 1e-12) | g.isinf()] = math.inf
    return float(f.min())


def lowest_by_search(record: Record, answers: int = 300) -> float:
    """The lowest f at the inner minima that differential evolution and then a simplex of points finds."""
    sides, _ = reach(record)
    low, high = (np.array(side) for side in zip(*sides, strict=True))
    found: list[float] = []

    def f(x: np.ndarray) -> float:
        value = best_answer(record, torch.from_numpy(np.clip(x, low, high)))[0]
        found.append(value)
        return value if math.isfinite(value) else 1e9

    if len(low) == 1:
        line = np.linspace(low, high, answers // 2)
        starts = [line[int(np.argmin([f(x) for x in line]))]]
    else:
        people = max(1, 20 // len(low))
        evolved = differential_evolution(
            f,
            [*zip(low, high + 1e-12, strict=True)],
            popsize=people,
            maxiter=answers // (people * len(low)),
            polish=False,
            seed=0,
        )
        starts = [evolved.x, point(record.solution[0]).numpy()]
    for start in starts:
        minimize(f, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-11, "maxfev": answers // 2})
    return min(found)
