"""What a solver finds in its folder."""

from pathlib import Path

import pytest

from bome.errors import ProblemError
from bome.storage import checkpoint
from bome.storage.past import history_until, newest_state, states


def test_the_newest_state_is_found_only_where_it_is_wanted(tmp_path: Path) -> None:
    assert newest_state(tmp_path, resume=True) is None
    assert newest_state(tmp_path, resume=False) is None
    for step in (1, 2):
        checkpoint.save(states(tmp_path), step, {"a": step})
    assert newest_state(tmp_path, resume=True) == {"a": 2}
    with pytest.raises(ProblemError, match="holds another run"):
        newest_state(tmp_path, resume=False)


def test_the_history_goes_as_far_as_the_state(tmp_path: Path) -> None:
    with history_until(tmp_path / "new", 0) as history:
        for step in range(3):
            history.append({"step": step})
    with history_until(tmp_path / "new", 2) as history:
        assert history.column("step") == [0, 1]
    assert len(history_until(None, 0)) == 0
