"""Sweeps of a small task, for tests."""

from pathlib import Path
from typing import Any

from bome.runs.jobs import Job, Outcome, grid

TASK = "hyperclean-digits"
SHORT: dict[str, Any] = {"steps": 12, "inner_steps": 2}


def jobs_of(
    method: str = "bome", values: dict[str, Any] | None = None, axes: dict[str, Any] | None = None, seeds: int = 2
) -> list[Job]:
    """A grid of runs that can go as a batch."""
    return grid(TASK, method, values or SHORT, axes if axes is not None else {"outer_lr": [10.0, 300.0]}, seeds)


def comparable(outcome: Outcome) -> list[dict[str, Any]]:
    """The history without what depends on the clock."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in outcome.history]


def mtimes(folder: Path) -> dict[str, int]:
    """When the outcome of each job was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "done").glob("*.json")}
