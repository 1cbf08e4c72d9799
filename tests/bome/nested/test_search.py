"""Rounds of runs: what a run may know, and budgets that end within a round."""

from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from bome.nested.losses import Spent
from bome.nested.search import ROUND, Search, State, advanced, score, sets_of, side_by_side
from bome.nested.survey import survey
from bome.nested.value import Point
from tests.support.nested import losses_of, two_wells, vector


def _search(limit: float = float("inf")) -> Search:
    losses = losses_of(two_wells(), limit)
    return Search(losses, survey(losses, sets_of(losses), 0), 0)


def _point(f: float, q: float, v: float = 0.0) -> Point:
    return Point(f, q, 1.0, vector(v), vector(0.0), 0.1)


def test_the_first_two_runs_start_at_the_start_with_two_penalties() -> None:
    search = _search()
    first, second = (search.start(number, []) for number in (0, 1))
    assert torch.equal(first.v, second.v)
    assert second.sigma == 100 * first.sigma
    assert not torch.equal(search.start(2, []).v, first.v)


def test_later_runs_start_near_the_best_of_the_rounds_before() -> None:
    search = _search()
    found = [_point(0.0, 1.0, -7.0), _point(1.0, 0.0, 5.0)]
    starts = [float(search.start(ROUND * k, found).v) for k in range(1, 9)]
    assert all(abs(start - 5) < 4 for start in starts)
    assert torch.equal(search.start(ROUND, found).v, search.start(ROUND, found).v)


def test_points_are_compared_by_f_and_penalised_q() -> None:
    assert score(_point(1.0, 0.0), 10) < score(_point(0.0, 0.5), 10)
    assert score(_point(1.0, -3.0), 10) == 1


def test_runs_know_only_the_rounds_before() -> None:
    search = _search()
    state, whole = State(), 0
    while len(state.ended) < ROUND + 1:
        state = advanced(search, state)
        if len(state.ended) == ROUND - 1:
            assert state.earlier == []
    whole = sum(len(run.found) for run in state.ended[:ROUND])
    assert len(state.earlier) == whole


@pytest.mark.parametrize("limit", [700, 900, 1100])
def test_a_budget_that_ends_within_a_round_ends_it_at_the_same_run(limit: int) -> None:
    """In this process: `jobs` of 1 gives out the parts one after the other, each with the whole of what is left."""
    alone, together = _search(limit), _search(limit)
    state = State(spent=dict(alone.losses.meter.spent))
    with suppress(Spent):
        while True:
            state = advanced(alone, state)
    beside = side_by_side(together, State(spent=dict(together.losses.meter.spent)), ROUND, 1, float("inf"))
    assert len(beside.ended) == min(len(state.ended), ROUND)
    assert [run.psi for run in beside.ended] == [run.psi for run in state.ended[:ROUND]]
    assert together.losses.meter.total == sum(beside.spent.values())


def test_what_was_spent_stands_in_the_state() -> None:
    search = _search()
    state = advanced(search, advanced(search, State()))
    assert sum(state.spent.values()) == search.losses.meter.total
    assert state.steps == 1
    assert replace(state, run=None).begun == state.ended
    assert len(state.found) == 1
