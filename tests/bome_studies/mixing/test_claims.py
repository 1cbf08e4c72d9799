"""The aims of the mixing study."""

import pytest

from bome_studies.mixing.claims import claims, rows_of
from tests.support.mixed import results


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, None),
        ({"junk": 0.05}, 0),
        ({"own": 0.3}, 1),
        ({"ours": 2.6, "theirs": 2.6}, 2),
        ({"theirs": 1.9}, 3),
        ({"copies": 2.2}, 4),
    ],
)
def test_each_aim_has_a_number_that_breaks_it(change: dict[str, float], broken: int | None) -> None:
    assert [claim.holds for claim in claims(results(**change))] == [i != broken for i in range(5)]


def test_rows_have_the_mean_over_the_seeds() -> None:
    rows = {(row.method, row.metric): row for row in rows_of(results(), "quick", "bome bench mix")}
    assert rows["bome", "junk"].mean == 0.01
    assert rows["equal weights", "held_out_loss"].mean == 2.5
    assert {row.seeds for row in rows.values()} == {2}
