"""What a comparison says."""

from dataclasses import replace

import pytest

from bome_studies.learning import claims
from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import Comparison
from tests.support.comparisons import entry_of


@pytest.mark.parametrize(
    ("bome", "other", "holds"),
    [
        ([91.0, 91.2], [90.0, 90.2], True),
        ([91.0, 91.2], [91.4, 91.0], True),  # −0.1 ± 0.3
        ([91.0, 95.0], [91.2, 95.2], False),  # worse on every seed, however much the seeds differ
        ([90.0, 90.1, 99.0], [91.0, 91.1], False),  # a seed that the other does not have
    ],
)
def test_first_or_level_compares_seed_by_seed_and_allows_one_standard_error(
    bome: list[float], other: list[float], holds: bool
) -> None:
    ours = entry_of("bome", bome)
    found = Comparison("hyperclean-digits", {}, (ours, entry_of("itd", other)), (), {})
    assert claims.first_or_level(found, ours, "selected").holds is holds


def test_a_method_with_a_diverged_run_is_named_and_its_other_runs_are_told() -> None:
    three = entry_of("itd", [80.0, 90.0, 85.0])
    first, second, third = three.outcomes
    astray = replace(three, outcomes=(first, replace(second, status="diverged"), third))
    found = Comparison("hyperclean-digits", {}, (entry_of("bome", [91.0, 92.0, 93.0]), astray), (), {})
    assert astray.last("test_accuracy")[0] == 82.5
    assert "itd on seed 1." in claims._about(found)
    table = claims.results(found, [], cleaning=False)
    row = dict(zip(table.header, table.rows[1], strict=True))
    assert (row["method"], row["test accuracy, %"], row["seeds"]) == ("itd", "82.50 ± 2.50", "2")


def test_an_ablation_tells_what_its_runs_share() -> None:
    entries = {f"T = {t}": replace(entry_of("bome", [90.0]), values={"inner_steps": t, "eta": 0.5}) for t in (1, 5)}
    assert claims._shared(entries) == "bome on seed 0 with eta = 0.5."
