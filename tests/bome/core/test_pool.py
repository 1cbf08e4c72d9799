"""The pool: every part once, lost workers, interruptions."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bome.core import pool
from bome.core.pool import ATTEMPTS, each
from bome.errors import ProblemError, RunInterruptedError, WorkerError


def square(part: int) -> tuple[int, int, int]:
    return part * part, torch.get_num_threads(), os.getpid()


def test_one_worker_is_this_process() -> None:
    threads = torch.get_num_threads()
    assert list(each(square, [2, 3], 1)) == [(2, (4, threads, os.getpid())), (3, (9, threads, os.getpid()))]
    assert next(each(square, [2], 2)) == (2, (4, threads, os.getpid()))


def test_workers_are_other_processes_with_one_thread_each() -> None:
    ends = dict(each(square, range(5), 2))
    assert {part: end[0] for part, end in ends.items()} == {part: part * part for part in range(5)}
    assert {end[1] for end in ends.values()} == {1}
    assert os.getpid() not in {end[2] for end in ends.values()}


def fail(part: int) -> int:
    if part:
        raise ProblemError(f"part {part} cannot work")
    return part


def test_an_error_of_the_work_comes_through() -> None:
    with pytest.raises(ProblemError, match="part 1 cannot work"):
        list(each(fail, [0, 1], 2))


def die_once(part: int, folder: Path) -> int:
    """The first worker that comes to part 1 is lost."""
    mark = folder / "lost"
    if part == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def test_what_is_lost_with_a_worker_is_given_out_again(tmp_path: Path) -> None:
    assert sorted(each(partial(die_once, folder=tmp_path), range(4), 2)) == [(part, part) for part in range(4)]


def stop_once(part: int, folder: Path) -> int:
    """The first worker that comes to part 1 is told to stop."""
    mark = folder / "stopped"
    if part == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    return part


def test_a_worker_that_is_told_to_stop_leaves_its_parts_to_others(tmp_path: Path) -> None:
    assert sorted(each(partial(stop_once, folder=tmp_path), range(4), 2)) == [(part, part) for part in range(4)]


def test_parts_that_are_lost_again_and_again_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def losing(work: Any, parts: Any) -> Iterator[pool.End]:
        tries.append(dict(parts))
        if len(tries) == 2:
            yield 0, True, (4, 1, 0)
        raise pool._lost_worker("loky")[0]("killed")

    monkeypatch.setattr(pool, "_loky", lambda workers: _opened(losing))
    ends = each(square, [2, 3], 2)
    assert next(ends) == (2, (4, 1, 0))
    with pytest.raises(WorkerError):
        next(ends)
    assert tries == [{0: 2, 1: 3}] * 2 + [{1: 3}] * (ATTEMPTS)


class _opened:  # noqa: N801 - stands for a function
    def __init__(self, give_out: Callable[..., Any]) -> None:
        self.give_out = give_out

    def __enter__(self) -> Callable[..., Any]:
        return self.give_out

    def __exit__(self, *error: object) -> None:
        pass


def save(part: int, folder: Path) -> None:
    """A run that is never done, and leaves a file when it is told to stop."""
    (folder / f"begun-{part}").touch()
    try:
        time.sleep(60)
    except SystemExit:
        (folder / f"saved-{part}").touch()
        raise


def test_an_interruption_lets_workers_save_and_begin_nothing_else(tmp_path: Path) -> None:
    def interrupt() -> None:
        while len(list(tmp_path.glob("begun-*"))) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    others = multiprocessing.active_children()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        list(each(partial(save, folder=tmp_path), range(9), 2))
    thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun-0", "begun-1", "saved-0", "saved-1"]
    assert [child for child in multiprocessing.active_children() if child not in others] == []


def test_a_worker_whose_run_was_interrupted_begins_no_other_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_Here", type("Here", (), {"own": True, "busy": False, "stopped": False}))
    begun: list[int] = []

    def work(part: int) -> int:
        begun.append(part)
        if part == 1:
            raise RunInterruptedError(signal.SIGTERM, 7)
        return part

    assert [pool._end(work, part, part) for part in range(3)] == [(0, True, 0), (1, False, None), (2, False, None)]
    assert begun == [0, 1]


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("dask", "dask.distributed")])
def test_a_backend_that_is_not_installed_is_named_with_its_remedy(
    backend: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProblemError, match=rf"backend {backend} is not installed: pip install 'bome\[{backend}\]'"):
        list(each(square, [1], 1, backend))
