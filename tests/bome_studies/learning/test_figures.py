"""The figures of a comparison."""

from dataclasses import replace

from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import Entry
from bome_studies.learning.protocol import METHODS
from tests.support.comparisons import comparison as made_up
from tests.support.comparisons import outcome


def test_the_figure_of_the_search_shows_a_panel_for_each_method_and_no_empty_one() -> None:
    shown = [axes for axes in figures.search(made_up()).axes if axes.axison]
    assert [axes.get_title() for axes in shown] == sorted(METHODS, key=lambda method: (method != "bome", method))
    assert all(axes.lines for axes in shown)


def test_f1_of_an_ablation_is_framed_without_its_start() -> None:
    def entry(end: float) -> Entry:
        ended = outcome("bome", 1.0, f1=end)
        rows = [{"step": 0, "f1": 0.0}, {"step": 2, "f1": 80.0}, {"step": 4, "f1": end}]
        return Entry("bome", {}, (replace(ended, history=rows),), 3.0)

    (panel,) = figures.ablation({"a": entry(90.0), "b": entry(95.0)}, ("f1",), "step").axes
    low, high = panel.get_ylim()
    assert 70 < low < 80
    assert 95 < high < 100
