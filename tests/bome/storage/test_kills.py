"""Savers that are killed at any moment lose nothing that was acknowledged.

The kills are real: this file, run as a program, forks savers and ends them with SIGKILL (see `main`). A process of its
own does that, because forking from a test runner with threads is asking for trouble.
"""

import itertools
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bome.errors import StorageError
from bome.storage import checkpoint
from bome.storage.checkpoint import load_latest, save
from tests.support.kills import die_at, in_child
from tests.support.states import assert_good, names, same, state_at

Saver = Callable[[Path, int, Any], object]


def naive_save(folder: Path, step: int, state: Any) -> None:
    """The negative control: the same files, written in place."""
    target = folder / "step_00000000"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in checkpoint._pack(0, {"step": step, "state": state}).items():
        with (target / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file)


def save_until_killed(save: Saver, folder: Path, start: int, acknowledge: int) -> None:
    checkpoint._pack(start, state_at(start))  # the first time after a fork is slow
    os.write(acknowledge, struct.pack("<q", -1))  # ready
    for step in itertools.count(start):
        save(folder, step, state_at(step))
        os.write(acknowledge, struct.pack("<q", step))
        if step % 3 == 0:
            save(folder, step, state_at(step))


def kill_while_saving(save: Saver, folder: Path, start: int, delay: float) -> int:
    """Let a child save until it is killed after the delay; return the last step it acknowledged, or -1."""
    reading, writing = os.pipe()
    pid = in_child(lambda: save_until_killed(save, folder, start, writing))
    os.close(writing)
    with open(reading, "rb") as pipe:
        pipe.read(8)
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "the child ended before it was killed"
        acknowledged = pipe.read()
    return struct.unpack("<q", acknowledged[-8:])[0] if acknowledged else -1


def window(folder: Path) -> float:
    """The time in which to kill: that of some eight saves as fast as they are now, so that load does not matter."""
    start = time.perf_counter()
    for step in range(4):
        save(folder, step, state_at(step))
    shutil.rmtree(folder)
    return max(0.025, 2 * (time.perf_counter() - start))


def random_kills(folder: Path, kills: int) -> dict[str, int]:
    """Kill savers that each continue where the one before was killed, and count what must not happen."""
    counts = {"kills": 0, "saves": 0, "unreadable": 0, "lost": 0, "different": 0, "most_strays": 0}
    rng = np.random.default_rng()
    step = -1
    for kill in range(kills):
        if kill % 25 == 0:
            longest = window(folder.with_name("window"))
        acknowledged = kill_while_saving(save, folder, step + 1, rng.uniform(0, longest))
        counts["kills"] += 1
        counts["most_strays"] = max(counts["most_strays"], sum(".tmp-" in n or ".old-" in n for n in names(folder)))
        try:
            found = load_latest(folder)
        except StorageError:
            counts["unreadable"] += 1
            continue
        reached = -1 if found is None else found.step
        counts["lost"] += reached < max(acknowledged, step)
        counts["different"] += found is not None and not same(found.state, state_at(found.step))
        counts["saves"] += reached - step
        step = reached
    save(folder, step + 1, state_at(step + 1))
    counts["strays_after_the_next_save"] = sum(not n[5:].isdigit() for n in names(folder))
    return counts


def naive_kills(folder: Path, kills: int) -> dict[str, int]:
    counts = {"kills": 0, "unreadable": 0}
    rng = np.random.default_rng()
    longest = window(folder.with_name("window"))
    for index in range(kills):
        acknowledged = kill_while_saving(naive_save, folder / str(index), 0, rng.uniform(0, longest))
        counts["kills"] += 1
        try:
            found = load_latest(folder / str(index))
        except StorageError:
            counts["unreadable"] += 1
        else:
            assert found is not None or acknowledged < 0
    return counts


SCENES = [("empty", 0), ("normal", 3), ("normal", 2), ("crashed", 2), ("crashed", 3)]


def prepare(folder: Path, scene: str) -> tuple[int, int]:
    """Build the folder before the save; return the step and version of its latest checkpoint (-1: none)."""
    if scene == "empty":
        return -1, 0
    for step in range(3):
        save(folder, step, state_at(step))
    if scene == "crashed":  # a replacement of step 2 was cut off, and so was a removal
        shutil.copytree(folder / "step_00000001", folder / f"step_00000001.old-{2**22 + 1}")
        save(folder / "other", 2, state_at(2, version=1))
        (folder / "other" / "step_00000002").rename(folder / "step_00000002.new")
        (folder / "other").rmdir()
        return 2, 1
    return 2, 0


def boundary_kills(folder: Path, scene: str, step: int) -> dict[str, int]:
    """Kill one save at each of its changes to the disk; whatever is found must be the state before or after it."""
    counts = {"kills": 0, "bad": 0, "before": 0, "after": 0}
    template, place = folder / f"{scene}-{step}", folder / "place"
    template.mkdir()
    before = prepare(template, scene)

    def kill(n: int, torn: bool) -> bool:
        def work() -> None:
            state = state_at(step, version=2)
            die_at(n, torn)
            save(place, step, state)

        shutil.copytree(template, place)
        _, status = os.waitpid(in_child(work), 0)
        assert status in (0, signal.SIGKILL)
        return status == signal.SIGKILL

    for torn in (False, True):
        for n in itertools.count(1):
            killed = kill(n, torn)
            counts["kills"] += killed
            try:
                found = load_latest(place)
                now = (-1, 0) if found is None else (found.step, found.state["version"])
                counts["bad"] += found is not None and not same(found.state, state_at(*now))
                counts["before"] += killed and now == before
                counts["after"] += killed and now == (step, 2)
                save(place, step + 1, state_at(step + 1))  # and life goes on
                assert_good(load_latest(place), step + 1)
                counts["bad"] += not all(name[5:].isdigit() for name in names(place))
            except (StorageError, Warning, AssertionError):
                counts["bad"] += 1
            shutil.rmtree(place)
            if not killed:
                break
    return counts


def size_limits(folder: Path) -> dict[str, int]:
    """Save under a limit on the size of files, as on a full disk, from nothing to one byte too few."""
    path = save(folder, 1, state_at(1))
    needed = max(file.stat().st_size for file in path.iterdir())
    limits = [*range(0, needed, 499), needed - 1]

    def work(limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(StorageError, match=r"cannot write .*step_00000002: File too large \(need about 0.0 MB\)$"):
            save(folder, 2, state_at(2))
        assert names(folder) == ["step_00000001"]
        assert_good(load_latest(folder), 1)

    wrong = 0
    for limit in limits:
        _, status = os.waitpid(in_child(lambda limit=limit: work(limit)), 0)  # type: ignore[misc]
        wrong += status != 0
    save(folder, 2, state_at(2))
    return {"limits": len(limits), "wrong": wrong}


def main(task: str, folder: str, *args: str) -> None:
    """Run one of the functions above and print its counts."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    tasks: dict[str, Callable[[Path], Any]] = {
        "random": lambda place: random_kills(place, int(args[0])),
        "naive": lambda place: naive_kills(place, int(args[0])),
        "boundary": lambda place: [boundary_kills(place, scene, step) for scene, step in SCENES],
        "limits": size_limits,
    }
    sys.stdout.write(json.dumps(tasks[task](Path(folder))))


def run_main(*args: str | Path, seconds: float = 120) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, __file__, *map(str, args)], capture_output=True, text=True, timeout=seconds, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_no_random_kill_loses_an_acknowledged_step(tmp_path: Path) -> None:
    counts = run_main("random", tmp_path, "200")
    assert counts["saves"] >= 40  # some 500
    assert counts["most_strays"] <= 1
    assert counts["strays_after_the_next_save"] == 0
    assert (counts["kills"], counts["unreadable"], counts["lost"], counts["different"]) == (200, 0, 0, 0)


@pytest.mark.slow
def test_no_random_kill_loses_an_acknowledged_step_in_many(tmp_path: Path) -> None:
    counts = run_main("random", tmp_path, "2000", seconds=900)
    assert (counts["kills"], counts["unreadable"], counts["lost"], counts["different"]) == (2000, 0, 0, 0)


def test_random_kills_do_spoil_files_written_in_place(tmp_path: Path) -> None:
    counts = run_main("naive", tmp_path, "40")
    assert counts["unreadable"] >= 4


def test_a_kill_at_any_change_to_the_disk_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for scene, counts in zip(SCENES, run_main("boundary", tmp_path), strict=True):
        assert counts["bad"] == 0, scene
        assert counts["kills"] >= 18, scene
        assert counts["before"] >= 12, scene
        assert counts["after"] >= 1, scene
        assert counts["before"] + counts["after"] == counts["kills"], scene


def test_a_full_disk_is_an_error_that_spares_the_checkpoint_before(tmp_path: Path) -> None:
    counts = run_main("limits", tmp_path)
    assert counts["limits"] >= 10
    assert counts["wrong"] == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
