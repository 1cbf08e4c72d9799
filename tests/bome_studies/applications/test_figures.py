"""The figures of the study of the applications."""

import numpy as np

from bome_studies.applications import figures
from tests.support.applied import Values, results

MADE: Values = {
    "penalties": {
        "bome.solve": [0.07, 0.08],
        "itd": [0.09, 0.1],
        "bome": [None, 1.0],
        "one penalty for all": [0.3, 0.4],
    },
    "anil": {"itd": [2.0, 4.0]},
}


def test_each_application_has_a_panel_with_the_lowest_on_top() -> None:
    first, second = figures.worth(results(MADE)).axes[:2]
    assert [label.get_text() for label in first.get_yticklabels()] == ["bome.solve", "itd", "one penalty for all"]
    assert np.asarray(first.lines[0].get_xdata()).tolist() == [0.07, 0.08]
    assert second.get_title() == "anil"


def test_f_is_drawn_against_the_live_f() -> None:
    (axes,) = figures.flattery(results(MADE)).axes
    points = [(float(x), float(y)) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)]  # type: ignore[arg-type]
    assert (0.035, 0.07) in points
    assert (0.5, 1.0) in points  # a seed counts even where another has no answer


def test_nothing_run_is_drawn_as_nothing() -> None:
    assert figures.flattery(results({"anil": {}})).axes
    assert figures.worth(results({"anil": {}})).axes
