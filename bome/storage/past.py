"""What a solver finds in the folder it records to: the newest state, and the history up to there."""

from pathlib import Path
from typing import Any

from bome.errors import ProblemError
from bome.storage import checkpoint
from bome.storage.history import History


def states(folder: Path) -> Path:
    """Where the checkpoints of a folder are."""
    return folder / "checkpoints"


def newest_state(folder: Path, *, resume: bool) -> dict[str, Any] | None:
    """The state of the newest checkpoint; None where there is none.

    Raises:
        ProblemError: there is one, and it is not wanted.
    """
    if resume:
        newest = checkpoint.load_latest(states(folder))
        return None if newest is None else newest.state
    if any("." not in path.name for path in states(folder).glob("step_*")):
        raise ProblemError(
            f"{states(folder)} holds another run: continue it with resume=True, or choose another folder"
        )
    return None


def history_until(folder: Path | None, steps: int) -> History:
    """The history of the first so many steps, in its file where there is a folder."""
    if folder is None:
        return History()
    folder.mkdir(parents=True, exist_ok=True)
    history = History.open(folder / "metrics.jsonl")
    history.truncate(steps - 1)
    return history
