"""Figures of studies."""

import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from bome.reports.figures import STYLE
from bome_studies.figures import draw


def test_a_figure_is_drawn_in_the_style_of_all_reports() -> None:
    seen = {}

    def curve(*values: float) -> Figure:
        seen.update({key: mpl.rcParams[key] for key in STYLE})
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(values)
        return figure

    drawing = draw("name", "Title", "Caption.", curve, 1.0, 2.0)
    assert (drawing.name, drawing.title, drawing.caption) == ("name", "Title", "Caption.")
    assert ElementTree.fromstring(drawing.svg).tag.endswith("svg")  # noqa: S314 - made here
    with mpl.rc_context(STYLE):
        assert seen == {key: mpl.rcParams[key] for key in STYLE}
