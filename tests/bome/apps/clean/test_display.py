"""How the page shows a row."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bome.apps.clean.display import Display
from bome.tables.layout import choose
from bome.tables.values import Table


def display(folder: Path, frame: pd.DataFrame) -> Display:
    numbers = {name: np.float32 for name in frame.columns if frame[name].dtype.kind in "if"}
    table = Table(folder / "t.csv", frame.astype(numbers), np.arange(len(frame)) + 2)
    return Display(table, choose(table, without=())[0])


def test_text_is_shown_before_anything_else(tmp_path: Path) -> None:
    texts = [f"word{i} and word{i % 3} here" for i in range(30)]
    shown = display(tmp_path, pd.DataFrame({"t": texts, "a": [float(i % 4) for i in range(30)]}))(3)
    assert (shown.place, shown.text, shown.image) == ("line 5", texts[3], None)


def test_cells_are_shown_with_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.23456, 2.0], **{f"k{i}": ["u", "v"] for i in range(13)}})
    assert display(tmp_path, frame)(0).text == "a 1.235, " + ", ".join(f"k{i} u" for i in range(11)) + ", …"


def test_an_image_is_shown_as_a_thumbnail(tmp_path: Path) -> None:
    Image.new("L", (4, 4), 7).save(tmp_path / "a.png")
    shown = display(tmp_path, pd.DataFrame({"f": ["a.png"] * 2}))(1)
    assert shown.text == ""
    assert shown.image is not None
    assert shown.image.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("names", "is_picture"),
    [([f"pixel{i}" for i in range(64)], True), ([f"pixel{i}" for i in range(63, -1, -1)], False)],
)
def test_numbered_columns_of_whole_numbers_are_a_picture(tmp_path: Path, names: list[str], is_picture: bool) -> None:
    values = np.random.default_rng(0).integers(0, 17, (20, 64)).astype(float)
    shown = display(tmp_path, pd.DataFrame(values, columns=names))(0)
    assert (shown.image is not None) == is_picture
    assert (shown.text == "") == is_picture
