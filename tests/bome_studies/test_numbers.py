"""Numbers in words."""

import math

from bome_studies.numbers import digits, points


def test_means_stand_with_their_errors() -> None:
    assert points((91.234, None)) == "91.23"
    assert points((91.234, 0.126)) == "91.23 ± 0.13"
    assert points((math.nan, None)) == "unknown"
    assert digits((0.000123456, None)) == "0.0001235"
    assert digits((1234.5, 0.123)) == "1234 ± 0.12"
