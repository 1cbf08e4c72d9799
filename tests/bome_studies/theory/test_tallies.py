"""What is kept of runs, and the inequalities that must hold at every step."""

import numpy as np
import torch

from bome_studies.theory import trials as trials
from bome_studies.theory.instances import residual_instances, residual_start
from bome_studies.theory.stretches import Spec, drive, measure
from bome_studies.theory.tallies import Checks, Tally


def test_a_wrong_move_breaks_the_barrier_inequality() -> None:
    bed = residual_instances(1)
    start = residual_start(bed, torch.ones(2, dtype=torch.float64))
    spec = Spec(3, 0.5)
    (stretch,) = drive(bed, start, torch.full((2,), 0.1, dtype=torch.float64), spec, 2, False)
    checks = Checks()
    checks.add(measure(bed, stretch._replace(delta=0.99 * stretch.delta), spec))
    assert checks.slack < -1e-4


def test_a_tally_averages_the_last_fifth_and_ends_where_each_run_ends() -> None:
    """Values are k and 10k; runs end at k = 10 and 5: means of 8, 9, 10 and of 40, 50."""
    tally = Tally(np.array([10, 5]), np.array([0, 4]))
    for first in (0, 4, 8):
        k = np.arange(first, min(first + 4, 12))
        tally.add(k, {"x": torch.from_numpy(np.stack([k + 1.0, 10.0 * k], axis=1))})
    np.testing.assert_allclose(tally.average("x"), [10, 45])
    np.testing.assert_allclose(tally.least["x"], [1, 0])
    np.testing.assert_allclose(tally.last["x"], [11, 50])
    np.testing.assert_allclose(tally.total["x"], [66, 150])
    np.testing.assert_allclose(tally.curve("x"), [[1, 0], [5, 40]])
    assert tally.steps == [0, 4]
