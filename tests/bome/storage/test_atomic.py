"""A file is the old one or the new one, and strays are told from what people wrote."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from bome.errors import StorageError
from bome.storage import atomic
from bome.storage.atomic import (
    beside,
    is_stray,
    publish,
    read_regular,
    replace_by,
    retire,
    write_atomic,
    write_folder,
)
from tests.support.states import Failing, dead_pid, names


@pytest.mark.parametrize("content", ["grün λ\n", b"\x00\xff", ""])
def test_write_atomic_writes(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "new" / "summary.json"
    for _ in range(2):
        write_atomic(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(path.parent) == ["summary.json"]


def test_write_atomic_keeps_the_old_content_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    for n in itertools.count(1):
        path.write_text("old")
        failing = Failing(n, errno.ENOSPC)
        monkeypatch.setattr(atomic, "os", failing)
        if n == 5:  # all of write, fsync, replace and fsync have failed once
            break
        with pytest.raises(StorageError, match=r"cannot write .*report.html: No space left on device \(need about"):
            write_atomic(path, "new")
        assert path.read_text() == ("old" if n < 4 else "new")
        assert names(tmp_path) == ["report.html"]
    write_atomic(path, "new")


def test_write_atomic_removes_its_own_strays_only(tmp_path: Path) -> None:
    dead = dead_pid()
    for name in (f"a.json.tmp-{dead}", f"b.json.tmp-{dead}", f"a.json.tmp-{os.getppid()}"):
        (tmp_path / name).write_text("half")
    write_atomic(tmp_path / "a.json", "{}")
    assert names(tmp_path) == sorted(["a.json", f"a.json.tmp-{os.getppid()}", f"b.json.tmp-{dead}"])


def test_only_regular_files_of_the_right_size_are_read(tmp_path: Path) -> None:
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    path.write_bytes(b"12345")
    os.mkfifo(pipe)
    assert read_regular(path) == read_regular(path, range(5, 6)) == b"12345"
    for wrong, sizes, message in (
        (path, range(5), "file has 5 bytes instead of 4"),
        (pipe, range(9), "pipe is not a regular file"),
        (Path("/dev/zero"), range(9), "zero is not a regular file"),
    ):
        with pytest.raises(StorageError, match=message):
            read_regular(wrong, sizes)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for version in (b"1", b"2"):
        temporary = beside(target, "tmp")
        write_folder(temporary, {"a": version})
        publish(temporary, target)
        assert names(tmp_path) == ["folder"]
        assert (target / "a").read_bytes() == version
    (tmp_path / "folder.new").mkdir()  # as a kill in the middle leaves it
    replace_by(tmp_path / "folder.new")
    assert names(tmp_path) == ["folder"]
    assert names(target) == []
    retire(target)
    assert names(tmp_path) == []


def test_strays_are_those_of_dead_processes() -> None:
    dead, own, alive = dead_pid(), os.getpid(), os.getppid()
    assert is_stray(f"a.json.tmp-{dead}")
    assert is_stray(f"step_00000001.old-{own}")
    assert is_stray("a.tmp-99999999999999999999")
    for name in (f"a.json.tmp-{alive}", f"a.json-{dead}", f".tmp-{dead}", f"a.tmp-0{dead}", "a.tmp-", "notes.tmp-old"):
        assert not is_stray(name), name
