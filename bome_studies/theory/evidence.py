"""What every topic of the theory study is made of: the outcomes of all sweeps, fits by family, verdicts on slopes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bome_studies.page import command
from bome_studies.study import Claim, Preset, Row, Section
from bome_studies.theory.figures import COLOUR, Line
from bome_studies.theory.fits import Array, Fit
from bome_studies.theory.instances import Residuals
from bome_studies.theory.protocol import Sweep
from bome_studies.theory.trials import Outcome, problems_of

FAMILIES = ("quadratic", "wavy")

EXACT = 1e-8
"""Relative rounding error allowed in inequalities that hold exactly; moves are differences of nearly equal points."""

KINDS = {"last": "last", "min": "min_k", "mean": "mean of the last 20 % of"}
"""Three ways to sum up 𝒦 along a run."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was run."""

    preset: Preset
    sweeps: Mapping[str, Sweep]
    outcomes: Mapping[str, Outcome]

    def where(self, name: str, use: str) -> tuple[list[int], Array, Array]:
        """The indices, step sizes and numbers of steps of the settings of one use."""
        settings = self.sweeps[name].settings
        at = [i for i, setting in enumerate(settings) if setting.use == use]
        return at, np.array([settings[i].rate for i in at]), np.array([float(settings[i].steps) for i in at])

    def named(self, start: str) -> list[str]:
        """The sweeps whose names begin so, in order."""
        return sorted(
            (name for name in self.sweeps if name.startswith(start)), key=lambda name: float(name.split("-")[1])
        )

    def ends(self, name: str, use: str) -> dict[str, Array]:
        """𝒦 at the end of the runs of one use, in the three ways."""
        at, outcome = self.where(name, use)[0], self.outcomes[name]
        return {"last": outcome.last["kkt"][at], "min": outcome.least["kkt"][at], "mean": outcome.average["kkt"][at]}

    @property
    def instances(self) -> Residuals:
        """The random instances."""
        return problems_of(self.sweeps["floors"])

    @property
    def pl(self) -> dict[str, float]:
        """κ of the families."""
        kappa = self.instances.pl()
        return {"quadratic": float(kappa[0]), "wavy": float(kappa[-1])}

    def row(self, task: str, variant: str, metric: str, fit: Fit) -> Row:
        """A number of the report."""
        return Row(task, "bome", variant, metric, fit.mean, fit.se, fit.n, self.preset, command("theory", self.preset))


class Topic(NamedTuple):
    """One part of the report with what follows from it."""

    section: Section
    claims: Sequence[Claim]
    rows: Sequence[Row]


def split(values: Array) -> dict[str, Array]:
    """The instances by family, each of which is one half of the last dimension."""
    half = values.shape[-1] // 2
    return {"quadratic": values[..., :half], "wavy": values[..., half:]}


def by_family(values: Array, fit: Callable[[Array], Fit]) -> dict[str, Fit]:
    """A number fitted to the instances of each family."""
    return {family: fit(mine) for family, mine in split(values).items()}


def lines_of(values: Array, fits: Mapping[str, Fit]) -> list[Line]:
    """A line of a figure for each family, with its fit."""
    return [Line(family, COLOUR[family], mine, fits[family]) for family, mine in split(values).items()]


def exponents(fits: Mapping[str, Fit], symbol: str) -> str:
    """The exponents of 𝒦 summed up in three ways, in words."""
    return (
        f"exponent {fits['min']} of min_k {symbol}, {fits['last']} of the last {symbol}, {fits['mean']} of its mean "
        "over the last 20 % of steps"
    )


def slope_claim(text: str, place: str, variant: str, fit: Fit, bound: float, words: str = "") -> Claim:
    """Holds if the slope is at least as steep as the bound by two standard errors; open if it is within them."""
    holds = None if abs(fit.mean - bound) < 2 * fit.se else fit.mean >= bound
    return Claim(text, place, variant, words or f"exponent {fit} (bound {bound:g})", holds)
