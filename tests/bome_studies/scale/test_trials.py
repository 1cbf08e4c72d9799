"""What the study of scale measures."""

import pytest

from bome_studies.scale import trials


def test_the_projection_is_what_paper_and_pencil_give() -> None:
    """7e9 parameters on 8 GPUs: 16 bytes of each parameter are 14 GB a GPU, 4 more bytes 3.5 GB."""
    told = trials.projection()
    assert told["plain"] == pytest.approx(14.0)
    assert told["bome"] == pytest.approx(17.5)
    assert told["evaluation"] == pytest.approx(3 * 14 * 7 / 8)
    assert told["step"] == pytest.approx(7 * 36.75)
