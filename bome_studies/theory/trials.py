"""The runs of the theory experiment: what is run for each preset, as batches that are stored when they are done."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bome.storage.atomic import write_atomic
from bome_studies.study import Preset, Report
from bome_studies.theory.instances import (
    SMOOTHNESS,
    Bed,
    Checks,
    Residuals,
    Sines,
    Spec,
    Start,
    Tally,
    drive,
    measure,
    one_thread,
    residual_instances,
    residual_start,
    sine_starts,
)
from bome_studies.toys.trials import PARTS, each

LONG, ALPHA = 12, 1 / SMOOTHNESS
"""T and α = 1/L where T should not matter; T is at least the constant c of Theorem 1 for the quadratic family."""

SHORT_ALPHA = 0.3
"""α where T should matter: a smaller step makes more of its values tell."""

SINE_T, SINE_ALPHA = 20, 1 / 3
"""T and α = 1/L for the sine problem."""

RIDGE = 0.01
"""ξ at which starts of the sine problem are run with twice as many inner steps."""

ETA = 0.5

AVERAGED = ("kkt", "q", "distance", "lam")
"""What is kept as averages over the last 20 % of steps, as minima and as last values."""


class Setting(NamedTuple):
    """What the runs of all instances share, and others in the batch do not.

    Attributes:
        use: "rate" for the sweep over ξ, "quarter" and "third" for the two schedules, "fixed" for the sweep over T,
            "outer" for the decay of q, "decay" for decreasing steps, "ridge" for more inner steps between basins.
        rate: ξ.
        steps: K.
        gap: q_0; it does not matter for the sine problem.
    """

    use: str
    rate: float
    steps: int
    gap: float


@dataclass(frozen=True)
class Sweep:
    """One batch: every setting on every instance.

    Attributes:
        name: of its file.
        bed: "residual" for quadratic and wavy instances, "sine" for starts of the sine problem.
        instances: of each family, or starts.
        inner_steps: T.
        inner_lr: α.
        settings: see `Setting`.
        eta: η.
        decay: whether steps decrease.
        curves: what is kept along the way.
        points: about how many points of a curve are kept.
        compiled: whether the step is traced, which pays for thousands of steps.
    """

    name: str
    bed: Literal["residual", "sine"]
    instances: int
    inner_steps: int
    inner_lr: float
    settings: tuple[Setting, ...]
    eta: float = ETA
    decay: bool = False
    curves: tuple[str, ...] = ()
    points: int = 150
    compiled: bool = True

    @property
    def steps(self) -> int:
        """Of the longest run."""
        return max(setting.steps for setting in self.settings)


Array = NDArray[np.float64]


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


def sweeps(preset: Preset) -> list[Sweep]:
    """All batches of a preset, the longest first."""
    sizes: dict[Preset, _Size] = {"smoke": _SMOKE, "quick": _QUICK, "paper": _PAPER}
    size = sizes[preset]
    common: dict[str, Any] = {"instances": size.instances, "compiled": preset != "smoke"}
    rates = [Setting("rate", rate, round(20 / rate), 1.0) for rate in size.rates]
    halves = [Setting("quarter", k**-0.5, k, 1.0) for k in size.counts]
    thirds = [Setting("third", k ** (-2 / 3), k, k ** (-1 / 3)) for k in size.counts]  # q_0 = 1/(ξK)
    floors = Sweep(
        "floors", "residual", inner_steps=LONG, inner_lr=ALPHA, settings=(*rates, *halves, *thirds), **common
    )
    fixed = Setting("fixed", size.fixed, round(15 / size.fixed), 1.0)
    grown = [s for s in halves if s.steps <= fixed.steps]
    by_t = [
        Sweep(f"T-{t}", "residual", inner_steps=t, inner_lr=SHORT_ALPHA, settings=(fixed, *grown),
              curves=("error", "error_bound"), points=20, **common)
        for t in sorted(size.inner_steps, reverse=True)
    ]  # fmt: skip
    falling = tuple(Setting("outer", rate, round(10 / rate / min(size.etas)), 10.0) for rate in size.outer)
    outer = [
        Sweep(f"eta-{eta:g}", "residual", inner_steps=LONG, inner_lr=ALPHA, settings=falling, eta=eta, curves=("q",),
              points=1000, **common)
        for eta in size.etas
    ]  # fmt: skip
    decreasing = Sweep(
        "decreasing", "residual", inner_steps=LONG, inner_lr=ALPHA, decay=True,
        settings=(Setting("decay", 0.5, size.counts[-2], 1.0),), curves=("residual", "lam", "kkt", "distance"),
        **common,
    )  # fmt: skip
    basins = Sweep("basins", "sine", size.starts, SINE_T, SINE_ALPHA, tuple(halves[:-1]), compiled=preset != "smoke")
    ridge = Sweep(
        "ridge", "sine", size.starts, 2 * SINE_T, SINE_ALPHA, (Setting("ridge", RIDGE, size.ridge, 0.0),),
        compiled=preset != "smoke",
    )  # fmt: skip
    return [floors, basins, ridge, decreasing, *outer, *by_t]


class _Size(NamedTuple):
    instances: int
    starts: int
    rates: tuple[float, ...]
    counts: tuple[int, ...]
    inner_steps: tuple[int, ...]
    fixed: float
    etas: tuple[float, ...]
    outer: tuple[float, ...]
    ridge: int


_SMOKE = _Size(2, 4, (0.4, 0.2), (20, 40, 60), (1, 3), 0.25, (1.0,), (0.1, 0.2), 20)
_QUICK = _Size(
    8, 24, (0.2, 0.1, 0.05, 0.02, 0.01, 0.005), (100, 300, 1000, 3000, 10000, 30000), (1, 2, 4, 6, 8, 12), 0.005,
    (0.25, 0.5, 1.0), (0.01, 0.02, 0.04), 2000,
)  # fmt: skip
_PAPER = _Size(
    20, 100, (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001), (100, 300, 1000, 3000, 10000, 30000, 100000),
    (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20), 0.001, (0.1, 0.25, 0.5, 1.0, 2.0), (0.005, 0.01, 0.02, 0.04), 3000,
)  # fmt: skip


def carry_out(made: Sequence[Sweep], folder: Path, report: Report, workers: int) -> dict[str, Outcome]:
    """Run all sweeps whose outcome is not in the folder yet, and read the others."""
    outcomes = {sweep.name: found for sweep in made if (found := _read(folder, sweep)) is not None}
    missing = [sweep for sweep in made if sweep.name not in outcomes]
    if outcomes:
        report("already there", len(outcomes), len(made))
    for sweep, outcome in each(perform, missing, workers):
        write_atomic(_path(folder, sweep), _dump(sweep, outcome))
        outcomes[sweep.name] = outcome
        report(sweep.name, len(outcomes), len(made))
    return outcomes


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


def _path(folder: Path, sweep: Sweep) -> Path:
    return folder / PARTS / f"{sweep.name}.json"


def _spec(sweep: Sweep) -> Any:
    return json.loads(json.dumps(asdict(sweep)))


def _dump(sweep: Sweep, outcome: Outcome) -> str:
    return json.dumps({"sweep": _spec(sweep), "outcome": _listed(asdict(outcome))})


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read(folder: Path, sweep: Sweep) -> Outcome | None:
    """The stored outcome of the very same sweep; None if there is none, or a damaged one."""
    try:
        found = json.loads(_path(folder, sweep).read_text(encoding="utf-8"))
        if found["sweep"] != _spec(sweep):
            return None
        stored = found["outcome"]
        tables = {
            name: {key: np.asarray(x, dtype=float) for key, x in stored[name].items()}
            for name in ("average", "least", "last", "curves")
        }
        arrays = {name: np.asarray(stored[name], dtype=float) for name in ("at", "basins", "jumps")}
        return Outcome(**tables, **arrays, checks=Checks(**stored["checks"]))  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def inner_rate(lr: float, pl: float) -> float:
    """b₁ = −log(1 − (α − Lα²/2)κ), by which log q falls in each inner step (the paper's list has the wrong sign)."""
    return -math.log(1 - (lr - SMOOTHNESS * lr * lr / 2) * pl)
