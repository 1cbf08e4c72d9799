"""The map of the matrix."""

from matplotlib.colors import to_hex

from bome_studies.matrix.cells import Attempt
from bome_studies.matrix.figures import GREEN, RED, YELLOW, map_of


def test_every_attempt_has_its_colour() -> None:
    attempts = [
        Attempt("plain", "bome", works=True, error=1e-8),
        Attempt("plain", "darts", works=True, error=1.0),
        Attempt("compile", "itd", works=False, message="no"),
    ]
    (axes,) = map_of(attempts).axes
    assert [to_hex(square.get_facecolor()) for square in axes.patches] == [GREEN, RED, YELLOW]
    assert [text.get_text() for text in axes.texts] == ["1e-08", "1e+00", "refuses"]
    assert len(axes.get_yticks()) == 2
