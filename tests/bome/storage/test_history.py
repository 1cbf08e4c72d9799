"""The history of a run: rows in memory and in a file that survives kills and full disks."""

import errno
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bome.errors import ProblemError, StorageError
from bome.methods.base import Info
from bome.storage import history as module
from bome.storage.history import MEASURED, History, Row

ROWS: list[Row] = [
    {"step": 0, "f": 0.1, "note": None},
    {"step": 1, "f": math.inf, "q": -1e-300},
    {"step": 2, "f": 0.30000000000000004, "note": "grün\nλ"},
]


def written(path: Path, rows: list[Row]) -> bytes:
    with History.open(path) as history:
        for row in rows:
            history.append(row)
    return path.read_bytes()


def key_of(rows: list[Row]) -> list[str]:
    """A form in which NaN equals NaN and 1 differs from 1.0."""
    return [repr(row) for row in rows]


values = st.none() | st.integers() | st.floats() | st.text(st.characters(codec=None))
rows_of_values = st.lists(
    st.dictionaries(st.text(), values.filter(lambda value: value not in ("NaN", "Infinity", "-Infinity"))), max_size=5
)


@settings(max_examples=100, deadline=None)
@given(rows=rows_of_values)
def test_rows_come_back_as_they_were(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        content = written(path, rows)
        with History.open(path) as again:
            assert key_of(again.rows) == key_of(rows)
        assert path.read_bytes() == content


def test_every_line_is_strict_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = written(tmp_path / "metrics.jsonl", [{"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.5}])
    (line,) = content.splitlines()
    assert json.loads(line, parse_constant=refuse) == {"a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 1.5}


def test_a_row_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.jsonl"
    with History.open(path) as history:
        for count, row in enumerate(ROWS, start=1):
            history.append(row)
            assert path.read_bytes().count(b"\n") == count == len(history)
        history.flush()


def test_in_memory_there_is_no_file() -> None:
    with History() as history:
        for row in ROWS:
            history.append(row)
        history.flush()
        history.truncate(1)
    assert history.rows == ROWS[:2]


def test_changing_a_row_afterwards_does_not_change_the_history() -> None:
    history, row = History(), dict(ROWS[0])
    history.append(row)
    row["f"] = 9.0
    assert history.rows == ROWS[:1]


@pytest.mark.parametrize("value", [torch.tensor(1.0), [1.0], {"a": 1}, b"x", "NaN", "Infinity", "-Infinity"], ids=repr)
def test_other_values_are_refused_and_nothing_is_stored(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "metrics.jsonl"
    with History.open(path) as history:
        with pytest.raises(ProblemError, match=r"the value .* of 'f' cannot go into a history"):
            history.append({"f": value})
        assert history.rows == []
    assert path.read_bytes() == b""
    with pytest.raises(ProblemError):
        History().append({"f": value})


def test_a_file_cut_at_any_byte_gives_its_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    content = written(path, ROWS)
    ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        with History.open(path) as history:
            whole = sum(size >= end - 1 for end in ends)  # a row lacks nothing but its newline at end - 1
            assert key_of(history.rows) == key_of(ROWS[:whole])
            for row in ROWS[whole:]:
                history.append(row)
        assert path.read_bytes() == content


def test_rubbish_after_the_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    content = written(path, ROWS)
    for tail in (b"\0" * 100, b"\xff", b"[" * 100_000, b"[1]", b'{"step": {}}'):
        path.write_bytes(content + tail)
        History.open(path).close()
        assert path.read_bytes() == content


@pytest.mark.parametrize("line", [b"", b"x", b"[1]", b"\xff", b'{"a": [1]}', b"[" * 100_000], ids=lambda line: line[:9])
def test_damage_before_the_last_line_is_an_error_with_its_place(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    first, *others = written(path, ROWS).splitlines(keepends=True)
    damaged = first + line + b"\n" + b"".join(others)
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match=r"metrics\.jsonl:2: not a row of a history"):
        History.open(path)
    assert path.read_bytes() == damaged


def test_truncated_and_repeated_equals_uninterrupted(tmp_path: Path) -> None:
    rows: list[Row] = [{"step": step, "f": 1 / (step + 1)} for step in range(20)]
    expected = written(tmp_path / "whole.jsonl", rows)
    path = tmp_path / "resumed.jsonl"
    for stop in range(20):
        path.unlink(missing_ok=True)
        written(path, rows)
        with History.open(path) as history:
            history.truncate(stop)
            assert history.rows == rows[: stop + 1]
            assert path.read_bytes() == b"".join(expected.splitlines(keepends=True)[: stop + 1])
            for row in rows[stop + 1 :]:
                history.append(row)
        assert path.read_bytes() == expected
    assert sorted(os.listdir(tmp_path)) == ["resumed.jsonl", "whole.jsonl"]


def test_truncate_keeps_rows_without_a_step() -> None:
    history = History()
    for row in ({"note": "start"}, {"step": 1}, {"step": 2}):
        history.append(row)
    history.truncate(1)
    assert history.rows == [{"note": "start"}, {"step": 1}]


def test_column_has_a_number_for_every_row() -> None:
    history = History()
    assert history.column("anything") == []
    for row in ROWS:
        history.append(row)
    assert history.column("f") == [0.1, math.inf, 0.30000000000000004]
    assert str(history.column("q")) == "[nan, -1e-300, nan]"
    assert all(map(math.isnan, history.column("note")))
    assert str(history.column("lam")) == "[nan, nan, nan]"  # other methods measure it
    with pytest.raises(ProblemError, match="no column 'loss'; it has f, note, q, step"):
        history.column("loss")


def test_what_steps_measure_is_known_to_the_history() -> None:
    assert set(MEASURED) == {*Info._fields, "kkt"}


def test_a_closed_history_can_be_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    written(path, ROWS)
    history = History.open(path)
    history.close()
    history.close()
    assert history.column("step") == [0, 1, 2]
    with pytest.raises(StorageError, match=r"cannot write .*metrics\.jsonl: the history is closed"):
        history.append({"step": 3})
    with pytest.raises(StorageError, match=r"cannot write .*metrics\.jsonl: the history is closed"):
        history.flush()


class FullDisk:
    """Stands for `os` in the module under test: takes `room` more bytes, then the disk is full."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = os.write(descriptor, data[: self.room])
        self.room -= count
        return count

    def fsync(self, _: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_full_disk_is_an_error_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    with History.open(path) as history:
        history.append(ROWS[0])
        for room in range(10):
            monkeypatch.setattr(module, "os", FullDisk(room))
            with pytest.raises(StorageError, match=r"cannot write .*metrics\.jsonl: No space left on device"):
                history.append(ROWS[1])
            with pytest.raises(StorageError, match=r"cannot write .*metrics\.jsonl: Input/output error"):
                history.flush()
            monkeypatch.setattr(module, "os", os)
        assert history.rows == ROWS[:1]
        history.append(ROWS[2])
    with History.open(path) as again:
        assert again.rows == [ROWS[0], ROWS[2]]


def test_a_directory_or_a_file_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot read .*: Is a directory"):
        History.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot (read|write) .*metrics\.jsonl"):
        History.open(tmp_path / "file" / "metrics.jsonl")
