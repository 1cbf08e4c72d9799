"""How the page shows a row of a table: as text, or as a picture."""

import re

import numpy as np
import pandas as pd

from bome.estimators.findings import Shown
from bome.tables.images import grey_picture, thumbnail
from bome.tables.layout import Layout, image_path
from bome.tables.values import Table


class Display:
    """Shows a row of a table: its text, its image, or, where the numbers are pixels, these."""

    def __init__(self, table: Table, layout: Layout) -> None:
        self._table, self._layout = table, layout
        self._side = _side(table.frame, layout)

    def __call__(self, row: int) -> Shown:
        """The row as people see it."""
        place = self._table.place(row).removeprefix(f"{self._table.path}, ")
        return Shown(place, self._text(row), self._image(row))

    def _text(self, row: int) -> str:
        frame, layout = self._table.frame, self._layout
        if layout.texts:
            return " · ".join(str(frame[part.name].iloc[row]) for part in layout.texts)
        if layout.images or self._side:
            return ""
        names = layout.columns[:12]
        cells = [frame[name].iloc[row] for name in names]
        words = [
            f"{name} {cell:.4g}" if isinstance(cell, float | np.floating) else f"{name} {cell}"
            for name, cell in zip(names, cells, strict=True)
        ]
        return ", ".join(words) + (", …" if len(layout.columns) > len(names) else "")

    def _image(self, row: int) -> bytes | None:
        if self._layout.images:
            return thumbnail(image_path(self._table, self._layout.images[0].name, row))
        if not self._side:
            return None
        values = self._table.frame.loc[row, list(self._layout.numbers)].to_numpy(dtype=np.float64)
        return grey_picture(values.reshape(self._side, self._side))


def _side(frame: pd.DataFrame, layout: Layout) -> int:
    """The side of a square picture of which the columns are the pixels in order; 0 if they are something else."""
    names = layout.numbers
    side = round(len(names) ** 0.5)
    numbered = [re.fullmatch(r"(.*?)([0-9]+)", name) for name in names]
    if side < 8 or side * side != len(names) or layout.columns != names or not all(numbered):
        return 0
    parts = [(match[1], int(match[2])) for match in numbered if match]
    start = parts[0][1]
    ordered = start in (0, 1) and parts == [(parts[0][0], start + i) for i in range(len(parts))]
    values = frame[list(names)].head(100).to_numpy()
    return side if ordered and bool((values >= 0).all()) and bool((values == np.round(values)).all()) else 0
