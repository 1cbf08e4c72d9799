"""The sweeps of the theory study: each is run as one batch, measured, and kept when it has ended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bome._typing import Report
from bome.core.threads import one_thread
from bome_studies.parts import results_of
from bome_studies.theory.fits import Array
from bome_studies.theory.instances import (
    SMOOTHNESS,
    Bed,
    Residuals,
    Sines,
    Start,
    residual_instances,
    residual_start,
    sine_starts,
)
from bome_studies.theory.protocol import Sweep
from bome_studies.theory.stretches import Spec, drive, measure
from bome_studies.theory.tallies import Checks, Tally

AVERAGED = ("kkt", "q", "distance", "lam")
"""What is kept as averages over the last 20 % of steps, as minima and as last values."""


@dataclass(frozen=True)
class Outcome:
    """What is known of a sweep; arrays have shape (settings, instances), those of curves (points, settings, instances).

    Attributes:
        average: over the last 20 % of the steps of each run.
        least: the minimum.
        last: at K.
        at: the steps of the curves.
        curves: by quantity.
        checks: see `Checks`.
        basins: k of each coordinate at the end, (settings, instances, n).
        jumps: changes of the basin.
    """

    average: dict[str, Array]
    least: dict[str, Array]
    last: dict[str, Array]
    at: Array
    curves: dict[str, Array]
    checks: Checks
    basins: Array
    jumps: Array


def outcomes_of(batches: Sequence[Sweep], folder: Path, report: Report, workers: int) -> dict[str, Outcome]:
    """The outcome of every sweep by its name; those that are finished in the folder are read."""
    return results_of(batches, perform, folder, report, workers, _restored)


def perform(sweep: Sweep) -> Outcome:
    """Run a batch and keep what is to be kept."""
    count = len(sweep.settings)
    bed, start = _problems(sweep)
    runs = len(start.v)
    each = runs // count
    rates = torch.tensor([s.rate for s in sweep.settings], dtype=torch.float64).repeat_interleave(each)
    ends = np.repeat([s.steps for s in sweep.settings], each)
    spec = Spec(sweep.inner_steps, sweep.inner_lr, sweep.eta, sweep.decay)
    tally, checks = Tally(ends, _grid(sweep)), Checks()
    basins = torch.zeros_like(start.theta, dtype=torch.long)
    with one_thread():
        for stretch in drive(bed, start, rates, spec, sweep.steps + 1, sweep.compiled):
            measured = measure(bed, stretch, spec)
            tally.add(stretch.k, measured)
            checks.add(measured)
            here = bed.basin(stretch.v, stretch.theta)
            for i, k in enumerate(stretch.k):
                if k in ends:
                    basins = torch.where(torch.from_numpy(ends == k)[:, None], here[i], basins)

    def shaped(values: Array) -> Array:
        return values.reshape(*values.shape[:-1], count, each)

    kept = (*AVERAGED, "f")
    return Outcome(
        average={name: shaped(tally.average(name)) for name in kept},
        least={name: shaped(tally.least[name]) for name in kept},
        last={name: shaped(tally.last[name]) for name in kept},
        at=np.asarray(tally.steps, dtype=float),
        curves={name: shaped(tally.curve(name)) for name in sweep.curves},
        checks=checks,
        basins=basins.numpy().astype(float).reshape(count, each, -1),
        jumps=shaped(tally.total["jumped"]),
    )


def problems_of(sweep: Sweep) -> Residuals:
    """The random instances of a sweep, once each."""
    return residual_instances(sweep.instances)


def _problems(sweep: Sweep) -> tuple[Bed, Start]:
    count = len(sweep.settings)
    if sweep.bed == "sine":
        return Sines(), sine_starts(sweep.instances).tiled(count)
    bed = problems_of(sweep)
    gaps = [torch.full((2 * sweep.instances,), s.gap, dtype=torch.float64) for s in sweep.settings]
    starts = [residual_start(bed, gap) for gap in gaps]
    return bed.tiled(count), Start(torch.cat([s.v for s in starts]), torch.cat([s.theta for s in starts]))


def _grid(sweep: Sweep) -> NDArray[np.int64]:
    """Steps at which curves are kept: all at first, then ever more seldom; evenly for decays that are exponential."""
    if not sweep.curves:
        return np.zeros(0, dtype=np.int64)
    if sweep.curves == ("q",):
        return np.arange(0, sweep.steps + 1, max(1, sweep.steps // sweep.points))
    return np.unique(np.geomspace(1, sweep.steps + 1, sweep.points).round().astype(np.int64)) - 1


def _restored(stored: dict[str, Any]) -> Outcome:
    return Outcome(**{**stored, "checks": Checks(**stored["checks"])})


def inner_rate(lr: float, pl: float) -> float:
    """b₁ = −log(1 − (α − Lα²/2)κ), by which log q falls in each inner step (the paper's list has the wrong sign)."""
    return -math.log(1 - (lr - SMOOTHNESS * lr * lr / 2) * pl)
