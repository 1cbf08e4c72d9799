"""States as plain containers, and back, by way of the disk."""

from pathlib import Path

import torch

from bome.nested.search import Search, State, advanced, sets_of
from bome.nested.state import plain, revived
from bome.nested.survey import survey
from bome.storage import checkpoint
from tests.support.nested import losses_of, quadratic


def test_a_state_survives_the_disk_and_goes_on_the_same_way(tmp_path: Path) -> None:
    problem = quadratic(inner_constraints=lambda v, theta, b: theta.square().sum().reshape(1) - 1)
    losses = losses_of(problem)
    search = Search(losses, survey(losses, sets_of(losses), 0), 0)
    state = State()
    for _ in range(5):
        state = advanced(search, state)
    checkpoint.save(tmp_path, 5, {"state": plain(state), "survey": plain(search.survey)})
    newest = checkpoint.load_latest(tmp_path)
    assert newest is not None
    other = losses_of(problem)
    again = Search(other, revived(newest.state["survey"]), 0)
    came_back: State = revived(newest.state["state"])
    assert came_back.run is not None
    assert came_back.run.descent is not None
    other.meter.spent.update(came_back.spent)
    for _ in range(4):
        state, came_back = advanced(search, state), advanced(again, came_back)
        assert state.run is not None
        assert came_back.run is not None
        assert torch.equal(state.run.v, came_back.run.v)
        assert state.spent == {**came_back.spent, "survey": state.spent["survey"]}
    assert [point.f for point in state.found] == [point.f for point in came_back.found]
