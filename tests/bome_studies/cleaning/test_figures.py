"""The figures of the cleaning study."""

import numpy as np

from bome_studies.cleaning import figures
from bome_studies.cleaning.methods import METHODS
from tests.support.cleaned import CELLS, results_of

RESULTS = results_of(lambda cell, name, seed: 90.0 if name == "bome" else 80.0 + seed)


def test_every_method_has_a_curve_over_the_rates() -> None:
    (axes,) = figures.by_rate(RESULTS, CELLS, "test_accuracy").axes
    assert axes.get_legend_handles_labels()[1] == list(METHODS)
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [20, 50, 70, 90]
    assert axes.get_title() == "uniform noise"


def test_the_map_has_a_square_for_each_cell() -> None:
    axes, *_ = figures.to_best_map(RESULTS).axes
    assert [text.get_text() for text in axes.texts] == ["+9.0"] * len(CELLS)


def test_times_stand_beside_each_method() -> None:
    (axes,) = figures.times(RESULTS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(METHODS)
