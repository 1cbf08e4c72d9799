"""Results of continual learning: runs by strategy, compared seed by seed."""

from dataclasses import replace
from typing import Any

from bome_studies.continual.claims import claims
from bome_studies.continual.results import Entry, Results, Runs
from tests.support.continual_results import results, summary_of


def test_comparisons_are_made_on_common_seeds_and_say_so() -> None:
    found = results([81.0, 80.0, 60.0], [78.0, 79.0])
    claim = next(c for c in claims(found) if "by 1.5 points" in c.text)
    assert claim.found == "ctn+bome minus ctn+itd: 2.00 ± 1.00 points on 2 common seeds"


def test_settings_at_an_end_of_their_grid_are_named() -> None:
    """A setting that some of the grid do not name has its usual value there."""
    grid: tuple[dict[str, Any], ...] = tuple({"eta": eta, "phi": "norm"} for eta in (1.0, 2.0, 4.0))
    grid += ({"eta": 2.0, "updates": 5},)
    usual = {"eta": 2.0, "updates": 2, "phi": "norm", "memory": 50}
    entry = Entry("ctn+bome", "selected", {"eta": 4.0, "phi": "norm"}, Runs([]), (1.0, 2.0), grid, usual=usual)
    assert entry.at_an_end == ["eta", "updates"]
    assert replace(entry, values={"eta": 2.0, "updates": 5}).at_an_end == ["updates"]
    assert replace(entry, grid=grid[:3], values={"eta": 2.0, "phi": "norm"}).at_an_end == []


def test_a_strategy_that_is_only_tuned_stands_beside_the_paper() -> None:
    entry = Entry("offline", "selected", {"theta_lr": 0.1}, Runs([summary_of(85.0)]), (1.0, 2.0))
    usual = Entry("offline", "published", {}, Runs([summary_of(84.0)]))
    assert Results("continual-pmnist", (entry,)).is_of_paper(entry)
    assert not Results("continual-pmnist", (usual, entry)).is_of_paper(entry)
