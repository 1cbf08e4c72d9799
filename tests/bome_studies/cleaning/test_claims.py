"""The aims of the cleaning study."""

from functools import partial

import pytest

from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.claims import behind, claims, to_best
from bome_studies.cleaning.data import Cell
from bome_studies.cleaning.trials import Results
from bome_studies.study import Claim
from tests.support.cleaned import CELLS, results_of


def _holds(results: Results) -> list[bool | None]:
    return [claim.holds for claim in claims(results)]


def test_all_aims_are_reached_by_a_method_that_is_ahead_everywhere() -> None:
    assert _holds(results_of(lambda cell, name, seed: 90.0 if name == "bome" else 80.0)) == [True] * 7


def test_the_bar_is_the_best_baseline_of_each_cell() -> None:
    """GLC is best at 20 %, pruning elsewhere; either of them is 5 points ahead somewhere."""

    def accuracy(cell: Cell, name: str, seed: int) -> float:
        best = "GLC" if cell.rate == 0.2 else "pruning"
        return 90.0 if name == best else 85.0 if name == "bome" else 70.0

    results = results_of(accuracy)
    assert [results.best_baseline(cell) for cell in CELLS] == ["GLC", "pruning", "pruning", "pruning"]
    assert [to_best(results, cell)[0] for cell in CELLS] == pytest.approx([-5.0] * 4)
    assert _holds(results)[:3] == [False, False, True]


def test_a_cell_counts_as_behind_only_beyond_a_standard_error_of_paired_differences() -> None:
    """Differences −3, 0, 0 have mean −1 and standard error 1: not behind. Differences −3, −1, −2: behind."""

    def accuracy(differences: tuple[float, ...], cell: Cell, name: str, seed: int) -> float:
        if cell.rate != 0.5 or name not in ("bome", "GLC"):
            return 90.0 if name == "bome" else 50.0
        return 80.0 + 10 * seed + (differences[seed] if name == "bome" else 0)

    assert behind(results_of(partial(accuracy, (-3.0, 0.0, 0.0)))) == []
    assert behind(results_of(partial(accuracy, (-3.0, -1.0, -2.0)))) == [CELLS[1]]


def test_cleanlab_must_be_beaten_strictly_and_only_under_heavy_noise() -> None:
    def level_at(rate: float) -> Results:
        return results_of(lambda cell, name, seed: 90.0 if name == "bome" or cell.rate == rate else 80.0)

    assert [_holds(level_at(rate))[2] for rate in (0.2, 0.5, 0.7, 0.9)] == [True, True, False, False]


@pytest.mark.parametrize(("other", "places"), [("cleanlab", (3, 5)), ("trusted only", (4, 6))])
def test_areas_are_compared_with_each_rival_on_all_cells_and_on_mnist(other: str, places: tuple[int, int]) -> None:
    holds = _holds(results_of(lambda cell, name, seed: 90.0, lambda name: 0.95 if name == other else 0.9))
    assert [i for i in range(3, 7) if holds[i] is False] == list(places)


def test_without_cells_of_a_kind_nothing_is_said() -> None:
    results = results_of(lambda cell, name, seed: 90.0)
    light = Results(results.scores, CELLS[:1], 3)
    found: list[Claim] = list(claims(light))
    assert [found[2].holds, found[5].holds, found[6].holds] == [None, None, None]
