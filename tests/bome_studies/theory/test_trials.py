"""Sweeps: run, kept, and in agreement with the theorem."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bome_studies.theory import trials as trials
from bome_studies.theory.fits import power
from bome_studies.theory.protocol import sweeps
from bome_studies.theory.trials import inner_rate, outcomes_of, perform


def test_the_rate_of_the_inner_steps_is_positive() -> None:
    """α = 1/L: 1 − κ/(2L) = 1 − μ/L."""
    assert inner_rate(2 / 3, 1.5) == pytest.approx(math.log(2))


def test_a_damaged_part_is_run_again(tmp_path: Path) -> None:
    sweep = sweeps("smoke")[-1]
    run = [sweep]
    outcomes_of(run, tmp_path, lambda *_: None, workers=1)
    (path,) = (tmp_path / "parts").glob("*.json")
    whole = path.read_text()
    path.write_text(whole[:100])
    outcomes_of(run, tmp_path, lambda *_: None, workers=1)
    assert json.loads(path.read_text()) == json.loads(whole)


def test_the_theorem_holds_on_a_short_sweep() -> None:
    """The floors of q and 𝒦 fall at least as fast as the bounds, ξ and ξ^{1/2}."""
    sweep = sweeps("smoke")[0]
    outcome = perform(sweep)
    rates = np.array([s.rate for s in sweep.settings if s.use == "rate"])
    assert power(rates, outcome.average["q"][: len(rates)]).mean > 1
    assert power(rates, outcome.average["kkt"][: len(rates)]).mean > 0.5
