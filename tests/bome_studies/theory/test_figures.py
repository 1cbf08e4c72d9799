"""The figures of the theory study."""

import numpy as np
import pytest

from bome_studies.theory import figures
from bome_studies.theory.figures import Line, Panel
from bome_studies.theory.fits import power

X = np.array([1.0, 10.0, 100.0])
Y = np.stack([X**-0.5, 2 * X**-0.5], axis=1)


def test_power_laws_stand_beside_their_bound() -> None:
    line = Line("measured", "black", Y, power(X, Y))
    (axes,) = figures.powers([Panel("K", "y", X, [line], (-0.25, "bound"))]).axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["bound", "measured: slope -0.50 ± 0.00"]
    guide = next(drawn for drawn in axes.get_lines() if drawn.get_label() == "bound")
    heights = np.asarray(guide.get_ydata(), dtype=float)
    assert heights[0] / heights[-1] == pytest.approx(100**0.25)


def test_curves_along_runs_have_a_band_of_all_of_them() -> None:
    k = np.arange(50.0)
    values = np.exp(-k / 10)[:, None] * np.array([1.0, 3.0])
    (axes,) = figures.along(k, [("y", {"quadratic": values}, -0.25, "guide")]).axes
    assert axes.get_ylabel() == "y"
    (band,) = axes.collections
    assert np.asarray(band.get_paths()[0].vertices)[:, 1].max() == pytest.approx(3.0)
