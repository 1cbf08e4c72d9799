"""The verdict: what is wrong with a point is found, and a solution passes."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from torch import Tensor

from bome import Problem, box, solve
from bome.nested.survey import Dice, Extent
from bome.nested.value import Point, Units
from bome.nested.verdict import NAMES, Judge, Judgement, agreement
from tests.support.nested import two_wells, value_of, vector

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def _judged(f: float, v: float, theta: float, sigma: float = 1e4, limit: float = float("inf")) -> Judgement:
    value = value_of(two_wells(), Units(reach=2.0))
    value.losses.meter.limit = limit
    extent = Extent(vector(0.9), vector(0.0), 2.0, True)
    return Judge(value, Dice(0), 2.0, extent, Point(f, 0.0, sigma, vector(v), vector(theta), 0.1)).judged()


def _failed(judgement: Judgement) -> set[str]:
    return {test.name for test in judgement.complete() if test.passed is False}


def test_the_solution_passes() -> None:
    """θ*(v) ≈ −1 − v/32: F = (v − ½)² + θ*(v) is least at v = ½ + 1/64."""
    judgement = _judged(-1.0161, 0.5156, -1.01569)
    assert _failed(judgement) == set()
    assert judgement.ties is not None
    assert judgement.ties.worst - judgement.ties.best < 0.01


def test_a_theta_in_the_higher_well_is_refuted() -> None:
    assert NAMES[0] in _failed(_judged(1.0, 0.5, 0.984))


def test_an_inner_maximum_is_refuted() -> None:
    assert NAMES[0] in _failed(_judged(0.0, 0.5, 0.032))


def test_a_v_that_is_not_stationary_is_refuted() -> None:
    assert NAMES[3] in _failed(_judged(0.25 - 1.03, 1.0, -1.03))


def test_where_to_go_on_is_told_where_something_better_was_seen() -> None:
    onward = _judged(0.25 - 1.03, 1.0, -1.03).onward
    assert onward is not None
    assert abs(float(onward.place.x) - 0.5156) < 1.0 - 0.5156
    assert _judged(-1.0161, 0.5156, -1.01569).onward is None


def test_an_f_that_is_not_that_of_the_inner_solution_is_refuted() -> None:
    assert NAMES[1] in _failed(_judged(-1.2, 0.5156, -1.2))


def test_a_small_penalty_is_refuted() -> None:
    """At σ = 0.2 f + σ g is least at a θ that is far from solving the inner problem."""
    assert _failed(_judged(-1.6, 0.6, -1.62, sigma=0.2)) & {NAMES[1], NAMES[2]}


def test_without_a_budget_nothing_is_claimed() -> None:
    judgement = _judged(-1.0161, 0.5156, -1.01569, limit=20)
    assert [test.passed for test in judgement.complete()] == [None] * len(NAMES)


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_ties_are_told(slope: float) -> None:
    """g does not depend on θ₂, on which f does."""

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v**2).sum() + slope * theta[1]

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (theta[0] - v[0]) ** 2

    value = value_of(Problem(outer, inner, vector(0.0), vector(0.0, 0.0), None, box(-1, 1)), Units(reach=2.0))
    extent = Extent(vector(0.0, 0.0), vector(0.0, 0.0), 2.0, True)
    point = Point(-slope, 0.0, 1e3, vector(0.0), vector(0.0, -1.0), 0.1)
    judgement = Judge(value, Dice(0), 2.0, extent, point).judged()
    assert judgement.ties == pytest.approx((-slope, slope), abs=1e-3)
    assert ("other inner solutions" in judgement.complete()[-1].text) == bool(slope)


def _free(f: Loss, g: Loss) -> str:
    """The verdict on the solution of a problem of two numbers without sets."""
    problem = Problem(lambda v, t, b: f(v, t).sum(), lambda v, t, b: g(v, t).sum(), vector(0.5), vector(0.3))
    return solve(problem, budget=2500).certificate.verdict


BOUNDLESS: dict[str, tuple[Loss, Loss, str]] = {
    "f along v": (lambda v, t: v + t, lambda v, t: (t - v).square(), "f"),
    "f over the minimisers of g": (lambda v, t: t + v.square(), lambda v, t: 0 * t * v, "f"),
    "g, linear": (lambda v, t: (v - 1).square() + t.square(), lambda v, t: t * (1 + v.square()), "g"),
    "g, concave": (lambda v, t: (v - 1).square() + t.square(), lambda v, t: v * t - t.square(), "g"),
}


@pytest.mark.parametrize("name", BOUNDLESS)
def test_a_loss_without_a_lower_bound_is_named(name: str) -> None:
    f, g, which = BOUNDLESS[name]
    verdict = _free(f, g)
    assert verdict.startswith(f"not solved: {which} falls without end")
    assert "does it have a lower bound? let v or θ live in a set" in verdict


def test_a_solution_far_from_the_start_has_a_lower_bound() -> None:
    """v = θ = 10⁵, where the start is below 1."""
    verdict = _free(lambda v, t: (v - 1e5).square() + (t - 1e5).square(), lambda v, t: (t - v).square())
    assert "falls without end" not in verdict
    assert verdict.startswith("solved")


def test_how_many_runs_agree_is_told() -> None:
    assert agreement(3, 7).text == "3 of 7 runs ended here"
    assert agreement(0, 4).text == "1 of 4 runs ended here"  # the run whose level was the best, though it went on
    assert agreement(1, 1).text == "only one run was made"
    assert agreement(1, 9).passed  # it is evidence, no test
