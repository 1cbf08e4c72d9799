"""Figures of studies: drawn in the style of all reports, each with its title and caption."""

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bome.reports.figures import STYLE, Drawing, render


def draw(name: str, title: str, caption: str, make: Callable[..., Figure], *arguments: Any) -> Drawing:
    """A figure ready for the page.

    Args:
        name: of its file.
        title: above it.
        caption: below it.
        make: makes the figure.
        arguments: what `make` is called with.
    """
    with mpl.rc_context(STYLE):
        return Drawing(name, title, caption, render(make(*arguments)))
