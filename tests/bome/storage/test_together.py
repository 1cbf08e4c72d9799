"""Ranks that save one checkpoint together, as threads that meet; real processes do so in `tests/distributed`."""

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from bome.core.ranks import Ranks
from bome.errors import StorageError
from bome.storage import atomic, together
from bome.storage.checkpoint import load, load_latest, save
from bome.storage.together import save_together
from tests.support.states import names, same

SIZE = 3


class Meeting:
    """Where threads exchange numbers."""

    def __init__(self) -> None:
        self.barrier, self.numbers = threading.Barrier(SIZE, timeout=60), [()] * SIZE

    def exchange(self, rank: int, numbers: Any) -> list[Any]:
        self.numbers[rank] = numbers
        self.barrier.wait()
        every = list(self.numbers)
        self.barrier.wait()
        return every


@dataclass(frozen=True)
class Thread:
    """What saving needs of `Ranks`."""

    meeting: Meeting
    rank: int
    size: int = SIZE

    def largest(self, *numbers: int) -> list[int]:
        return [max(each) for each in zip(*self.meeting.exchange(self.rank, numbers), strict=True)]

    def gathered(self, *numbers: int) -> list[list[int]]:
        return [list(each) for each in self.meeting.exchange(self.rank, numbers)]


def shared(version: int) -> dict[str, Any]:
    return {"version": version, "w": torch.full((3, 2), float(version)), "half": torch.ones((), dtype=torch.bfloat16)}


def own(rank: int) -> dict[str, Any]:
    return {"rows": torch.arange(rank + 1), "name": f"rank {rank}"}


def save_all(folder: Path, step: int, version: int = 0) -> list[Any]:
    """What saving gave or raised, by rank."""
    meeting = Meeting()

    def work(rank: int) -> Any:
        try:
            return save_together(folder, step, shared(version), own(rank), cast(Ranks, Thread(meeting, rank)))
        except StorageError as error:
            return str(error)

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(work, range(SIZE)))


def test_every_rank_reads_what_is_shared_and_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run" / "step_00000007"
    assert save_all(tmp_path / "run", 7) == [path] * SIZE
    for rank in range(SIZE):
        found = load(path, rank)
        assert (found.step, found.ranks) == (7, SIZE)
        assert same(found.state, {**shared(0), **own(rank)})
    assert same(load(path, SIZE).state, {**shared(0), **own(0)})  # a fourth rank takes what is the first's


def test_the_same_step_is_replaced_and_only_three_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 0, {})
    for step in (1, 2, 3, 3):
        save_all(tmp_path, step, version=step)
    assert names(tmp_path) == ["step_00000001", "step_00000002", "step_00000003"]
    found = load_latest(tmp_path)
    assert found is not None
    assert found.state["version"] == 3


@pytest.mark.parametrize("victim", ["rank1.json", "rank2.safetensors", "manifest.json", "state.json"])
def test_if_one_rank_cannot_write_all_say_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    save_all(tmp_path, 1, version=1)
    real: Callable[[Path, bytes], None] = atomic.write_file

    def write(path: Path, data: bytes) -> None:
        if path.name == victim:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data)

    monkeypatch.setattr(together, "write_file", write)
    rank = int(victim[4]) if victim.startswith("rank") else 0
    for number, message in enumerate(save_all(tmp_path, 2, version=2)):
        reason = ": No space left on device" if number == rank else ""
        assert message == f"cannot write {tmp_path / 'step_00000002'}: rank {rank} failed{reason}"
    assert names(tmp_path) == ["step_00000001"]
    assert load(tmp_path / "step_00000001").state["version"] == 1


@pytest.mark.parametrize("name", ["state.json", "tensors.safetensors", "rank1.json", "rank1.safetensors"])
def test_a_flipped_bit_in_a_file_of_a_rank_is_refused(tmp_path: Path, name: str) -> None:
    save_all(tmp_path, 1)
    path = tmp_path / "step_00000001" / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match=f"checksum mismatch in {name}"):
        load(path.parent, 1)
