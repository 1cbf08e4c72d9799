"""The figure of the matrix."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from bome_studies.matrix.cells import CELLS, METHODS, Attempt
from bome_studies.matrix.claims import agrees

GREEN, RED, YELLOW = "#cde9d3", "#f4c7c3", "#fbe8b8"


def map_of(attempts: Sequence[Attempt]) -> Figure:
    """A square for each method in each cell."""
    cells = [name for name in CELLS if any(o.cell == name for o in attempts)]
    figure = Figure(figsize=(9.2, 0.42 * len(cells) + 0.9), layout="constrained")
    axes = figure.subplots()
    for o in attempts:
        x, y = list(METHODS).index(o.method), cells.index(o.cell)
        colour = GREEN if agrees(o) else YELLOW if not o.works else RED
        axes.add_patch(mpl.patches.Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, linewidth=0))
        axes.text(x, y, f"{o.error:.0e}" if o.works else "refuses", ha="center", va="center", fontsize=9)
    axes.set_xlim(-0.5, len(METHODS) - 0.5)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xticks(range(len(METHODS)), list(METHODS))
    axes.set_yticks(range(len(cells)), [CELLS[name].title for name in cells])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure
