"""Groups of ranks whose findings all tests share: each is started once, and those of the fast tests side by side."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bome.storage.lock import alone
from bome_studies.matrix.launch import environment, torchrun
from tests.distributed import resuming

HERE = Path(__file__).parent
LIMIT = 400
"""Seconds that a group may take on a busy machine."""


def folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that the processes of a test session share."""
    base = factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    found.mkdir(exist_ok=True)
    return found


@contextmanager
def once(place: Path) -> Iterator[bool]:
    """Whether this is the first time; others wait until it is over."""
    with alone(place):
        try:
            yield not (place / "done").exists()
        finally:
            (place / "done").touch()


def fast(factory: pytest.TempPathFactory) -> Path:
    """What two ranks find together, and the run of which one is killed and restarted by torchrun."""
    place = folder(factory, "ranks")
    with once(place) as first:
        if first:
            (place / "killed").mkdir()
            for kind in ("ddp", "fsdp"):
                digest = resuming.go("one", place / f"one-for-{kind}", resuming.HALF)
                (place / f"one-for-{kind}.digest").write_text(digest)
            script = [str(HERE / "resuming.py"), str(place / "killed"), str(place / "killed.json")]
            _wait({"together": forked("together", place), "killed": torchrun(2, *script, restarts=1)}, place)
    return place


def saves(factory: pytest.TempPathFactory) -> Path:
    """What is left of saves during which a rank was killed."""
    place = folder(factory, "saves")
    with once(place) as first:
        if first:
            _wait({"saves": forked("saves", place)}, place)
    return place


def forked(what: str, place: Path) -> list[str]:
    """The command that lets forked ranks do something."""
    return [sys.executable, str(HERE / "ranks.py"), what, str(place)]


def _wait(commands: dict[str, list[str]], place: Path) -> None:
    """Run commands side by side; the output of each is in a file."""
    found = {**environment(), "PYTHONPATH": str(HERE.parents[1])}  # ranks import other files of the tests
    logs = {name: (place / f"{name}.log").open("w") for name in commands}
    started = {
        name: subprocess.Popen(command, env=found, stdout=logs[name], stderr=subprocess.STDOUT)
        for name, command in commands.items()
    }
    try:
        for process in started.values():
            process.wait(LIMIT)
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        for log in logs.values():
            log.close()
    for name, process in started.items():
        assert process.returncode == 0, f"{name}: {(place / f'{name}.log').read_text()[-3000:]}"
