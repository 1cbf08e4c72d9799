"""The order of basins."""

from bome_studies.theory import trials as trials
from bome_studies.theory.basins import _ordered


def test_order_is_judged_only_between_basins_that_differ() -> None:
    assert _ordered([1.0, 1.01, 2.0], [1.1, 1.0, 2.0])
    assert not _ordered([1.0, 2.0], [2.0, 1.0])
