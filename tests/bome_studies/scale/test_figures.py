"""The figures of the study of scale."""

import numpy as np
import pytest

from bome_studies.scale import figures

POINTS = {10: {"seconds": 0.1, "ratio": 1.2, "copies": 2.0}, 1000: {"seconds": 1.0, "ratio": 1.1, "copies": 2.0}}


@pytest.mark.parametrize(("axis", "scale"), [("parameters", "log"), ("T", "linear")])
def test_times_have_seconds_on_the_left_and_ratios_on_the_right(axis: str, scale: str) -> None:
    left, right = figures.time(POINTS, axis).axes
    assert np.asarray(left.lines[0].get_ydata()).tolist() == [0.1, 1.0]
    assert np.asarray(right.lines[0].get_ydata()).tolist() == [1.2, 1.1]
    assert left.get_xscale() == right.get_xscale() == scale
    assert left.get_xlabel() == figures.LABELS[axis]


def test_memory_is_drawn_over_both_axes() -> None:
    panels = figures.memory({"parameters": POINTS, "T": POINTS}).axes
    assert [np.asarray(axes.lines[0].get_ydata()).tolist() for axes in panels] == [[2.0, 2.0]] * 2


def test_the_bars_of_the_projection_are_in_gigabytes() -> None:
    (axes,) = figures.gpus().axes
    assert [text.get_text() for text in axes.texts] == [
        "14.0 GB",
        "plain training",
        "17.5 GB",
        "BOME",
        "28.0 GB",
        "two models",
    ]
