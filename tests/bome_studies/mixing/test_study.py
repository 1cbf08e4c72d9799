"""The page of the mixing study; `tests/bome_studies/test_cli.py` runs it."""

from bome_studies.mixing.study import _sections
from tests.support.mixed import results


def test_the_page_shows_losses_paths_and_ends() -> None:
    names = [drawing.name for section in _sections(results()) for drawing in section.figures]
    assert names == ["held-out", "bome", "f2sa", "weights"]
