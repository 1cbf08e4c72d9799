"""What the theory study runs: batches of settings on random instances, for each preset."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from bome_studies.study import Preset
from bome_studies.theory.instances import SMOOTHNESS

LONG, ALPHA = 12, 1 / SMOOTHNESS
"""T and α = 1/L where T should not matter; T is at least the constant c of Theorem 1 for the quadratic family."""

SHORT_ALPHA = 0.3
"""α where T should matter: a smaller step makes more of its values tell."""

SINE_T, SINE_ALPHA = 20, 1 / 3
"""T and α = 1/L for the sine problem."""

RIDGE = 0.01
"""ξ at which starts of the sine problem are run with twice as many inner steps."""

ETA = 0.5


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
