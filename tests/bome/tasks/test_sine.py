"""The sine: its losses, and that its optimum is global."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from bome.tasks import sine
from bome.testing import check_task
from tests.support.toys import VARIANTS, loss, tensor


@pytest.mark.parametrize("variant", VARIANTS["sine"])
def test_every_variant_passes_the_battery(variant: str) -> None:
    check_task(partial(sine, variant=variant))


def test_losses_have_the_values_computed_by_hand() -> None:
    """f = (0 − 2)² + 2·(0 − 4)², g = 2 sin(−2)."""
    assert loss(sine(), "f", tensor(0.0), tensor(0.0, 0.0)) == 36.0
    assert loss(sine(), "g", tensor(0.0), tensor(0.0, 0.0)) == pytest.approx(2 * math.sin(-2), rel=1e-14)


def test_the_optimum_of_the_sine_is_global() -> None:
    """Every feasible point has v + θ_i − 2 = −π/2 + 2k_iπ: a grid over v and both k, fine enough to come within 1e-5.

    f is a quadratic of curvature 6 along v, so a spacing of 1e-3 misses its minimum by at most 3·(5e-4)² < 1e-6.
    """
    task = sine()
    assert task.optimum is not None
    v = np.arange(-10, 10, 1e-3)
    lowest = math.inf
    for k in itertools.product(range(-3, 5), repeat=2):
        theta = [2 * math.pi * each - math.pi / 2 + 2 - v for each in k]
        lowest = min(lowest, float(np.min((v - 2) ** 2 + sum((t - 4) ** 2 for t in theta))))
    assert task.optimum.f <= lowest <= task.optimum.f + 1e-6
