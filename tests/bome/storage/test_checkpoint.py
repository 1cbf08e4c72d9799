"""Checkpoints: what goes in comes out, the newest are kept, and full disks spare the one before."""

import errno
import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bome.errors import ProblemError, StorageError
from bome.storage import atomic
from bome.storage.atomic import write_atomic
from bome.storage.checkpoint import CheckpointWarning, load, load_latest, save
from tests.support.states import FILES, Failing, assert_good, dead_pid, names, same, state_at


def test_changing_the_state_afterwards_does_not_change_the_checkpoint(tmp_path: Path) -> None:
    state = state_at(1)
    save(tmp_path, 1, state)
    state["weights"].zero_()
    assert_good(load_latest(tmp_path), 1)


@pytest.mark.parametrize(("step", "keep"), [(-1, 3), (0, 0)])
def test_bad_arguments(tmp_path: Path, step: int, keep: int) -> None:
    with pytest.raises(ProblemError, match="step >= 0 and keep >= 1"):
        save(tmp_path, step, {}, keep)


# --- the folder -------------------------------------------------------------------------------------------------------


def test_an_empty_or_missing_folder_has_no_latest(tmp_path: Path) -> None:
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StorageError, match=r"cannot read .*file: Not a directory"):
        load_latest(file)
    with pytest.raises(StorageError, match=r"cannot write .*step_00000000: .* \(need about 0.0 MB\)"):
        save(file, 0, {})
    with pytest.raises(StorageError, match=r"cannot write .*config.json"):
        write_atomic(file / "config.json", "{}")
    assert file.read_text() == "x"


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(6):
        save(tmp_path, step, state_at(step), keep=2)
    assert names(tmp_path) == ["step_00000004", "step_00000005"]
    assert_good(load_latest(tmp_path), 5)


def test_newest_means_the_largest_number_not_the_last_name(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000):
        save(tmp_path, step, state_at(step))
    assert_good(load_latest(tmp_path), 100_000_000)


def test_the_checkpoint_just_saved_is_never_pruned(tmp_path: Path) -> None:
    for step in (7, 8, 9, 3):
        path = save(tmp_path, step, state_at(step), keep=2)
    assert names(tmp_path) == ["step_00000003", "step_00000009"]
    assert_good(load(path), 3)


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    for version in range(3):
        path = save(tmp_path, 4, state_at(4, version))
        assert path == tmp_path / "step_00000004"
        assert_good(load_latest(tmp_path), 4, version)
        assert names(tmp_path) == ["step_00000004"]


def test_strays_of_dead_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = dead_pid()
    gone = [f"step_00000007.tmp-{dead}", f"step_00000001.old-{dead}", f"step_00000009.tmp-{os.getpid()}"]
    stay = [f"step_00000008.tmp-{os.getppid()}", f"notes.tmp-{dead}", "step_x", "notes"]
    for name in gone + stay:
        (tmp_path / name).mkdir()
        (tmp_path / name / "tensors.safetensors").write_bytes(b"half")
    assert load_latest(tmp_path) is None
    save(tmp_path, 0, state_at(0))
    assert names(tmp_path) == sorted([*stay, "step_00000000"])


def test_loading_a_checkpoint_that_was_renamed(tmp_path: Path) -> None:
    best = save(tmp_path, 3, state_at(3)).rename(tmp_path / "best")
    assert_good(load(best), 3)
    wrong = best.rename(tmp_path / "step_00000009")
    with pytest.raises(StorageError, match=r"manifest.json is of step 3$"):
        load(wrong)


# --- power loss: the order of writes, syncs and renames ---------------------------------------------------------------


class Recorder:
    """Stands for `os` in the module under test and notes what happens to which path."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, *args: Any) -> int:
        descriptor = os.open(path, *args)
        self._open[descriptor] = Path(path).name
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        self.events.append(("write", self._open[descriptor]))
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.events.append(("fsync", self._open[descriptor]))
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self.events.append(("rename", Path(target).name))
        os.rename(source, target)


def test_everything_is_on_disk_before_the_rename_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(atomic, "os", recorder)
    save(tmp_path / "run", 5, state_at(5))
    temporary = f"step_00000005.tmp-{os.getpid()}"
    files = [("write", name) for name in FILES] + [("fsync", name) for name in FILES]
    assert recorder.events[0] == ("fsync", tmp_path.name)  # the new folder itself
    assert sorted(recorder.events[1:7]) == sorted(files)
    assert recorder.events[7:] == [("fsync", temporary), ("rename", "step_00000005"), ("fsync", "run")]
    for name in FILES:
        assert recorder.events.index(("write", name)) < recorder.events.index(("fsync", name))

    recorder.events.clear()
    save(tmp_path / "run", 5, state_at(5, version=1))
    moves = [event for event in recorder.events if event[0] == "rename" or event[1] == "run"]
    assert moves == [
        ("rename", "step_00000005.new"),
        ("fsync", "run"),
        ("rename", f"step_00000005.old-{os.getpid()}"),
        ("rename", "step_00000005"),
        ("fsync", "run"),
    ]


# --- full and failing disks -------------------------------------------------------------------------------------------


def failures(monkeypatch: pytest.MonkeyPatch, code: int) -> Iterator[int]:
    """Let the first, second, ... change to the disk fail, until all have had their turn."""
    for n in itertools.count(1):
        failing = Failing(n, code)
        monkeypatch.setattr(atomic, "os", failing)
        yield n
        monkeypatch.setattr(atomic, "os", os)
        if failing.left > 0:
            assert n > 4, "nothing was counted"
            return


def refusal(folder: Path, step: int) -> str:
    """Save and return the message of the error, if any."""
    try:
        save(folder, step, state_at(step, version=1))
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT], ids=os.strerror)
@pytest.mark.parametrize("step", [2, 3], ids=["same step again", "next step"])
def test_any_failing_call_leaves_a_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, step: int
) -> None:
    refused = 0
    for n in failures(monkeypatch, code):
        folder = tmp_path / str(n)
        with monkeypatch.context() as healthy:
            healthy.setattr(atomic, "os", os)
            for old in range(3):
                save(folder, old, state_at(old))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            message = refusal(folder, step)
        if message:
            refused += 1
            expected = f"cannot write {folder}/step_0000000{step}: {os.strerror(code)} (need about 0.0 MB)"
            assert message == expected
        assert not any(".tmp-" in name for name in names(folder))
        assert all(str(item.message).startswith("cannot remove") for item in caught)
        found = load_latest(folder)
        assert found is not None
        is_new = same(found.state, state_at(step, version=1))
        assert is_new or (message and same(found.state, state_at(2)))
    assert refused >= 9  # mkdir, 3 writes, 4 syncs and a rename at the least


def test_an_old_checkpoint_that_cannot_be_removed_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 0, state_at(0))
    monkeypatch.setattr(atomic, "os", Failing(11, errno.EACCES))  # the first change after the save itself
    with pytest.warns(CheckpointWarning, match=r"cannot remove .*step_00000000: Permission denied"):
        save(tmp_path, 1, state_at(1), keep=1)
    assert_good(load_latest(tmp_path), 1)


def test_the_message_of_a_full_disk_says_how_much_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "os", Failing(2, errno.ENOSPC))
    with pytest.raises(StorageError, match=r"No space left on device \(need about 4\.0 MB\)$"):
        save(tmp_path, 0, torch.zeros(1_000_000))
    assert names(tmp_path) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "sync_folder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 0, state_at(0))
    assert names(tmp_path) == []
