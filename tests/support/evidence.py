"""Evidence of the theory study that is made up: 𝒦 ∝ ξ, q ∝ ξ², λ ∝ 1/ξ."""

from dataclasses import replace

import numpy as np

from bome_studies.theory.evidence import Evidence
from bome_studies.theory.protocol import Sweep, sweeps
from bome_studies.theory.tallies import Checks
from bome_studies.theory.trials import Outcome

POINTS = np.arange(20.0)
"""Steps at which curves are kept."""


def evidence() -> Evidence:
    """What the sweeps of preset smoke would give if these laws held with a little noise."""
    planned = sweeps("smoke")
    return Evidence(
        "smoke", {sweep.name: sweep for sweep in planned}, {sweep.name: _outcome(sweep) for sweep in planned}
    )


def _outcome(sweep: Sweep) -> Outcome:
    runs = sweep.instances * (1 if sweep.bed == "sine" else 2)
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal((len(sweep.settings), runs))
    rates = np.array([setting.rate for setting in sweep.settings])[:, None] * noise
    numbers = {"kkt": rates, "q": rates**2, "distance": rates, "lam": 1 / rates, "f": 1 + rates}
    curves = {name: np.exp(-POINTS)[:, None, None] * noise for name in sweep.curves}
    if "error" in curves:
        curves["error"] = 0.5 * curves["error_bound"]
    checks = Checks(steps=10, active=5, error=0.9, slack=1e-12, equality=1e-12)
    basins, jumps = np.zeros((len(rates), runs, 2)), np.zeros((len(rates), runs))
    return Outcome(numbers, numbers, numbers, POINTS, curves, checks, basins, jumps)


def with_checks(told: Evidence, checks: Checks) -> Evidence:
    """The same with other inequalities in every sweep."""
    return replace(told, outcomes={name: replace(one, checks=checks) for name, one in told.outcomes.items()})
