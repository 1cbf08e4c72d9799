"""What is said of paths on the toys that are made up."""

from dataclasses import replace

import pytest

from bome_studies.toys import claims
from bome_studies.toys.trials import Trace, Trial


def _trace(*distances: float, v: float = 0.0, theta: float = 0.0) -> Trace:
    """A path with these distances to the optimum, and one point of (v, θ)."""
    count = len(distances)
    return Trace(
        steps=[10 * i for i in range(count)],
        units=[120.0 * i for i in range(count)],
        v=[[v]] * count,
        theta=[[theta]] * count,
        f=[1.0] * count,
        q=[1.0, *[0.0] * (count - 1)],
        distance=[*distances],
    )


def test_distances_are_to_the_saddle_point_the_lls_solution_and_the_optimum() -> None:
    assert claims.distance("coreset", _trace(3.0, 0.5)) == 0.5
    assert claims.distance("coreset", _trace(3.0, 0.5), 0) == 3.0
    assert claims.distance("minimax", _trace(9.0, v=3.0, theta=4.0)) == 5.0
    assert claims.distance("lls", _trace(9.0, v=1.0, theta=1.0)) == 0.0
    assert claims.radius(_trace(9.0, 9.0, v=3.0, theta=4.0)) == [5.0, 5.0]


@pytest.mark.parametrize(
    ("ends", "missed"),
    [
        ([_trace(9.0, 5.0, 5.0, 5.0)], True),  # it has settled elsewhere
        ([_trace(9.0, 5.0, 4.0, 3.0)], None),  # still on its way
        ([_trace(9.0, 5.0, 5.0, 5.0), _trace(9.0, 1.0, 0.1, 0.01)], False),  # one start arrives
        ([replace(_trace(9.0, 1.0, 0.1, 0.01), diverged=True)], None),
    ],
)
def test_a_miss_is_decided_only_by_runs_that_have_settled(ends: list[Trace], missed: bool | None) -> None:
    assert claims._missed("coreset", ends) is missed


def test_of_several_runs_with_a_pair_of_coefficients_the_nearest_counts() -> None:
    def trial(epsilon: float) -> Trial:
        coefficients = (("lam", 0.1), ("gamma", 0.01), ("epsilon", epsilon))
        name = f"grid-coreset-penalty-0.1-0.01-{epsilon}"
        return Trial(name, "coreset", "code", "penalty", "published", 10, coefficients=coefficients)

    trials = [trial(0.1), trial(0.01)]
    outcomes = {trial.name: {"a": _trace(9.0, end)} for trial, end in zip(trials, (2.0, 1.0), strict=True)}
    assert claims.best_by_pair("coreset", "penalty", trials, outcomes) == {(0.1, 0.01): 1.0}


def test_a_row_names_the_settings_that_are_its_own() -> None:
    trial = Trial(
        "x", "coreset", "paper", "bome", "default", 50, factor=0.1, inner_steps=3, coefficients=(("eta", 0.9),)
    )
    assert claims.variant_of(trial) == "rescaled default T=3 eta=0.9 steps=50"
