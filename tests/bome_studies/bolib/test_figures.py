"""The figures of the study of BOLIB."""

import numpy as np
from matplotlib.patches import Rectangle

from bome_studies.bolib import figures
from bome_studies.bolib.trials import Mark, Outcome, Results, Trial

PROBLEMS = ("bolib-falkliu1995", "bolib-hatzetal2013", "bolib-bard1984b")


def _results() -> Results:
    def outcome(rough: tuple[bool, bool], claim: bool | None, refused: str = "") -> Outcome:
        marks = tuple(Mark(n, n, 0.0, each, each) for n, each in zip((10, 20), rough, strict=True))
        return Outcome(() if refused else marks, claim, refused, 1.0)

    outcomes = {Trial("bome.solve", name, 0, (10, 20)): outcome((False, True), True) for name in PROBLEMS}
    for name in PROBLEMS:
        refused = "no" if name == PROBLEMS[2] else ""
        outcomes[Trial("bome", name, 0, (10, 20))] = outcome((name == PROBLEMS[0],) * 2, True, refused)
    return Results(outcomes)


def test_profiles_rise_with_the_evaluations_and_leave_out_who_refuses_all() -> None:
    left, right = figures.profile(_results()).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in left.lines] == [[0, 1], [0.5, 0.5]]
    assert [line.get_label() for line in right.lines] == ["bome.solve"]


def test_the_chart_has_a_shade_for_every_problem_and_contender() -> None:
    (axes,) = figures.chart(_results()).axes
    shades = np.asarray(axes.images[0].get_array())
    assert shades.tolist() == [[4, 4], [4, 2], [4, 0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["falkliu1995", "hatzetal2013", "bard1984b"]


def test_false_verdicts_go_to_the_left() -> None:
    (axes,) = figures.verdicts(_results()).axes
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == [3, 1, 0, 0, 0, -1, 0, 0]


def test_both_parts_of_the_library_have_a_bar_for_each_solver() -> None:
    (axes,) = figures.halves(_results()).axes
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == [1, 1 / 3, 0, 0]  # designed on; the others were not run
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bome.solve", "bome"]
