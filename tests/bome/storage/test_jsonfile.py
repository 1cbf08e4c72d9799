"""JSON files come back as they were written, and what is damaged is told in one line."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from bome.errors import ProblemError, StorageError
from bome.storage import jsonfile


def test_nan_and_infinity_are_null_for_people() -> None:
    value = {"a": [1.5, math.nan], "b": (math.inf, {"c": -math.inf}), "d": "grün"}
    assert jsonfile.plain(value) == {"a": [1.5, None], "b": [None, {"c": None}], "d": "grün"}
    text = jsonfile.dumps(value)
    assert json.loads(text) == jsonfile.plain(value)
    assert "grün" in text
    assert text.endswith("}\n")


def test_a_value_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "value.json"
    name = b"\xff.csv".decode("utf-8", "surrogateescape")
    values: list[Any] = [{"a": [1, 2.5, None, True]}, [], "text", {"name": name}]
    for value in values:
        jsonfile.write(path, value)
        assert jsonfile.read(path) == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is damaged: it is not JSON"),
        (b"", "is damaged: it is not JSON"),
        (b"[" * 200_000, "is damaged: it is not JSON"),
        (b'"\xff"', "is damaged: it is not text"),
        (b"[1]", "is damaged: it is not an object"),
    ],
)
def test_what_is_damaged_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(StorageError) as refusal:
        jsonfile.read_object(path)
    assert str(refusal.value) == f"{path} {message}"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("missing", "cannot read .*missing: No such file"), ("pipe", "pipe is not a regular file")):
        with pytest.raises(StorageError, match=message):
            jsonfile.read(tmp_path / name)


ROWS: list[dict[str, Any]] = [{"step": 0, "f": 0.5, "note": None}, {"step": 1, "f": math.inf, "q": -math.inf}]


def test_rows_come_back_and_a_cut_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert jsonfile.read_rows(path) == []
    content = b"".join(map(jsonfile.row_line, ROWS))
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = content[: cut + 1].count(b"\n")  # an object without its newline is whole all the same
        assert jsonfile.read_rows(path) == ROWS[:whole]
        assert path.read_bytes() == content[:cut]


@pytest.mark.parametrize("line", ["[1]", "{", '{"a": []}', "", "\xff"])
def test_a_damaged_row_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(jsonfile.row_line(ROWS[0]) + line.encode("latin-1") + b"\n" + jsonfile.row_line(ROWS[1]))
    with pytest.raises(StorageError, match=r"metrics.jsonl:2: not a row of a history"):
        jsonfile.read_rows(path)


@pytest.mark.parametrize("value", [[1], {}, "NaN", b"x"])
def test_a_row_holds_plain_values_only(value: Any) -> None:
    with pytest.raises(ProblemError, match="of 'a' cannot go into a history"):
        jsonfile.row_line({"a": value})
