"""The choice: by what it goes, and its mean and standard error."""

import pytest

from bome.runs.choice import criterion, mean_and_error, ranked
from bome.runs.directory import DIVERGED, FINISHED
from bome.runs.jobs import Job, Outcome


def outcome_of(eta: float, seed: int, status: str = FINISHED, **last: float | None) -> Outcome:
    return Outcome(Job("lls", "bome", (("eta", eta),), seed), status, "", [{"step": 1, **last}])


def test_the_choice_is_by_the_mean_loss_on_validation_set_2_and_never_by_test() -> None:
    outcomes = [
        outcome_of(0.1, 0, val2_loss=1.0, test_accuracy=90.0, f=0.0), outcome_of(0.1, 1, val2_loss=3.0, f=0.0),
        outcome_of(0.5, 0, val2_loss=1.5, test_accuracy=10.0, f=9.0), outcome_of(0.5, 1, val2_loss=1.5, f=9.0),
        outcome_of(0.9, 0, val2_loss=0.1, f=0.0), outcome_of(0.9, 1, DIVERGED, val2_loss=0.1, f=0.0),
        outcome_of(0.7, 0, val2_loss=None, f=0.0),
    ]  # fmt: skip
    choices = ranked(outcomes)
    assert [dict(choice.values)["eta"] for choice in choices][:2] == [0.5, 0.1]
    assert [choice.score for choice in choices] == [1.5, 2.0, float("inf"), float("inf")]
    assert choices[0].mean("test_accuracy") == (10.0, None)


def test_without_validation_set_2_a_low_f_is_not_chosen_where_theta_does_not_minimise_g() -> None:
    near, far = {"distance_to_optimum": 0.1, "kkt": 0.3, "f": 2.0}, {"distance_to_optimum": 0.5, "kkt": 0.2, "f": 1.0}
    for known, best in ((("distance_to_optimum", "kkt", "f"), 1), (("kkt", "f"), 2)):
        outcomes = [outcome_of(eta, 0, FINISHED, **{k: told[k] for k in known}) for eta, told in ((1, near), (2, far))]
        assert dict(ranked(outcomes)[0].values)["eta"] == best
        assert criterion(outcomes) == known[0]


def test_f_after_a_refit_chooses_where_all_that_finished_have_it() -> None:
    """f = 1 flatters, and its v is worth less; of one without F nobody knows, so that f has to do."""
    both = [outcome_of(1, 0, f=1.0, F=3.0, kkt=0.1), outcome_of(2, 0, f=2.0, F=2.5, kkt=0.2)]
    assert criterion(both) == "F"
    assert dict(ranked(both)[0].values)["eta"] == 2
    assert criterion([*both, outcome_of(3, 0, DIVERGED)]) == "F"
    assert criterion([*both, outcome_of(3, 0, f=0.0, kkt=0.0)]) == "kkt"
    assert criterion([outcome_of(1, 0, F=1.0, distance_to_optimum=0.5)]) == "distance_to_optimum"


def test_where_nothing_else_is_known_the_choice_is_by_f() -> None:
    assert [dict(choice.values)["eta"] for choice in ranked([outcome_of(1, 0, f=2.0), outcome_of(2, 0, f=1.0)])] == [
        2,
        1,
    ]


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Values 1, 2, 3: mean 2, deviation 1, standard error 1/√3."""
    mean, error = mean_and_error([1.0, 2.0, 3.0])
    assert mean == 2
    assert error == pytest.approx(3**-0.5)
    assert mean_and_error([5.0]) == (5.0, None)
    assert mean_and_error([])[1] is None
