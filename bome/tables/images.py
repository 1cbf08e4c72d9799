"""Images named by the cells of a table: as features, and as small pictures for a page."""

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bome.errors import ProblemError

if TYPE_CHECKING:
    from PIL.Image import Image

EXTENSIONS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
GREY_SIDE, COLOUR_SIDE = 28, 16
"""The side of an image as features: 784 values of grey, or 768 of colour."""
THUMBNAIL = 96
"""The longest side of a picture on a page."""


@dataclass(frozen=True)
class Shape:
    """How images become features.

    Attributes:
        mode: "L" for grey, "RGB" for colour.
        side: every image is scaled to a square of this many pixels.
    """

    mode: str
    side: int

    @property
    def width(self) -> int:
        """The number of features."""
        return self.side**2 * (3 if self.mode == "RGB" else 1)


def shape_of(images: Iterable[tuple[str, Path]]) -> Shape:
    """Grey if the first images all are, otherwise colour."""
    for where, path in images:
        with _opened(where, path) as image:
            if image.mode not in ("1", "L", "LA", "I", "I;16", "F"):
                return Shape("RGB", COLOUR_SIDE)
    return Shape("L", GREY_SIDE)


def pixels(where: str, path: Path, shape: Shape) -> NDArray[np.float32]:
    """The features of an image, in [0, 1].

    Args:
        where: the place of its name in the table, for errors.
        path: of the image.
        shape: how it becomes features.

    Raises:
        ProblemError: it cannot be read.
    """
    from PIL import Image

    with _opened(where, path) as image:
        scaled = _plain(image).convert(shape.mode).resize((shape.side, shape.side), Image.Resampling.BOX)
        return np.asarray(scaled, dtype=np.float32).ravel() / np.float32(255)


def thumbnail(path: Path) -> bytes | None:
    """A small PNG of an image; None if it cannot be read."""
    from PIL import Image

    try:
        with _opened("", path) as image:
            small = _plain(image).convert("RGB")
            factor = THUMBNAIL / max(small.size)
            side = tuple(max(1, round(factor * length)) for length in small.size)
            kind = Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS
            return _png(small.resize((side[0], side[1]), kind))
    except ProblemError:
        return None


def grey_picture(values: NDArray[np.float64]) -> bytes:
    """A PNG of numbers, shape (height, width), of which the largest, or 1, is white."""
    from PIL import Image

    return _png(Image.fromarray((255 * values / max(values.max(), 1.0)).astype(np.uint8)))


def _png(image: "Image") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


@contextmanager
def _opened(where: str, path: Path) -> Iterator["Image"]:
    """An open image; whatever is wrong with it is one line."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                yield image
    except FileNotFoundError:
        raise ProblemError(f"{where}: the image {str(path)!r} does not exist") from None
    except (OSError, ValueError, SyntaxError, MemoryError, EOFError, ArithmeticError, LookupError, TypeError) as error:
        raise ProblemError(f"{where}: the image {str(path)!r} cannot be read: {_first_line(error)}") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise ProblemError(f"{where}: the image {str(path)!r} has too many pixels") from None


def _plain(image: "Image") -> "Image":
    """The image with 8 bits per channel; 16 bits are scaled, not cut off."""
    from PIL import Image

    if image.mode in ("I", "I;16", "F"):
        values: Any = np.asarray(image, dtype=np.float64)
        top = 65535 if values.max(initial=0) > 255 else 255
        return Image.fromarray((values.clip(0, top) * (255 / top)).astype(np.uint8))
    return image


def _first_line(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]
