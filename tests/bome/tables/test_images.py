"""Images as features, and as small pictures for a page."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bome.errors import ProblemError
from bome.tables.images import THUMBNAIL, Shape, grey_picture, pixels, shape_of, thumbnail


def saved(path: Path, mode: str, size: tuple[int, int] = (10, 10)) -> Path:
    Image.new(mode, size, 100).save(path)
    return path


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(io.BytesIO(data))


def test_one_coloured_image_makes_all_of_them_coloured(tmp_path: Path) -> None:
    grey, coloured = saved(tmp_path / "a.png", "L"), saved(tmp_path / "b.png", "RGB")
    assert shape_of([("", grey), ("", grey)]) == Shape("L", 28)
    assert shape_of([("", grey), ("", coloured)]) == Shape("RGB", 16)
    assert Shape("L", 28).width == 784
    assert Shape("RGB", 16).width == 768


def test_features_are_shares_of_white(tmp_path: Path) -> None:
    values = pixels("", saved(tmp_path / "a.png", "L"), Shape("L", 4))
    np.testing.assert_array_equal(values, np.full(16, np.float32(100) / np.float32(255)))


@pytest.mark.parametrize("size", [(500, 100), (5, 10)])
def test_a_thumbnail_keeps_the_proportions(tmp_path: Path, size: tuple[int, int]) -> None:
    small = opened(thumbnail(saved(tmp_path / "a.png", "L", size)))
    assert max(small.size) == THUMBNAIL
    assert small.width / small.height == pytest.approx(size[0] / size[1], rel=0.05)


def test_what_is_no_image_has_no_thumbnail_and_is_refused_as_features(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("no image")
    assert thumbnail(path) is None
    with pytest.raises(ProblemError, match=r"line 3: the image '.*a\.png' cannot be read"):
        pixels("line 3", path, Shape("L", 4))
    with pytest.raises(ProblemError, match=r"line 3: the image '.*b\.png' does not exist"):
        pixels("line 3", tmp_path / "b.png", Shape("L", 4))


def test_the_largest_number_of_a_picture_is_white() -> None:
    picture = np.asarray(opened(grey_picture(np.array([[0.0, 8.0], [16.0, 4.0]]))))
    assert picture.tolist() == [[0, 127], [255, 63]]
    assert np.asarray(opened(grey_picture(np.zeros((2, 2))))).max() == 0
