"""When a run ends."""

import pytest
import torch
from torch.optim import SGD

from bome.errors import ProblemError
from bome.loop import Result, run
from bome.methods.base import Info
from bome.stopping import FirstOf, MaxEvaluations, MaxSeconds, MaxSteps, Progress, Stationary, Stop
from tests.support.samples import bome, toy


def at(step: int = 10, kkt: float | None = None, evaluations: int = 0, seconds: float = 0.0) -> Progress:
    zero = torch.zeros(())
    info = None if kkt is None else Info(f=zero, q=zero, kkt_gradient=torch.tensor(kkt))
    return Progress(step, info, evaluations, seconds)


def test_the_rules_say_why() -> None:
    assert MaxSteps(10)(at(9)) is None
    assert MaxSteps(10)(at(10)) == "10 steps done"
    assert MaxEvaluations(50)(at(evaluations=49)) is None
    assert MaxEvaluations(50)(at(evaluations=50)) == "50 evaluations done"
    assert MaxSeconds(2.5)(at(seconds=2.4)) is None
    assert MaxSeconds(2.5)(at(seconds=2.5)) == "2.5 seconds spent"
    assert Stationary(1e-3, 5)(at(10, 2e-3)) is None
    assert Stationary(1e-3, 5)(at(10, 1e-4)) == "𝒦 ≈ 1.00e-04 at one look"


def test_stationarity_is_looked_at_only_now_and_then_and_only_where_it_is_measured() -> None:
    assert Stationary(1e-3, 5)(at(11, 1e-4)) is None
    assert Stationary(1e-3, 5)(at(10)) is None
    assert Stationary(1e-3, 5)(at(10, float("nan"))) is None


def test_the_first_of_several_rules_counts() -> None:
    both = FirstOf((MaxSteps(20), MaxEvaluations(50)))
    assert both(at(10, evaluations=49)) is None
    assert both(at(10, evaluations=50)) == "50 evaluations done"
    assert both(at(20, evaluations=50)) == "20 steps done"


def finished(stop: Stop | None) -> Result:
    problem = toy()
    return run(problem, bome(3), outer_opt=SGD(problem.v.leaves, 0.1), stop=stop)


@pytest.mark.parametrize(
    ("stop", "steps"),
    [
        (MaxSteps(7), 7),
        (MaxEvaluations(51), 11),
        (None, 1000),
        (FirstOf((MaxSteps(9), MaxSteps(4))), 4),
        (lambda progress: progress.step >= 6, 6),
        (FirstOf((lambda progress: progress.step >= 3, MaxSteps(9))), 3),
    ],
)
def test_a_run_ends_by_its_rule(stop: Stop | None, steps: int) -> None:
    """A step of T = 3 costs 5 evaluations: 51 are spent after 11."""
    result = finished(stop)
    assert result.steps == steps
    assert result.evaluations == {"g": 4 * steps, "f": steps}


def test_a_rule_may_answer_true_or_false_and_nothing_else() -> None:
    assert finished(lambda progress: progress.step >= 2).status == "the stop rule said so"
    with pytest.raises(ProblemError, match=r"^a stop rule must answer None to go on, or why the run is over, got 0$"):
        finished(lambda progress: 0)  # type: ignore[arg-type]
