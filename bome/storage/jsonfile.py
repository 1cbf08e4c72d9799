"""JSON files: written whole, read with care. The one place that turns values into JSON for people and back."""

import contextlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bome.errors import ProblemError, StorageError
from bome.storage.atomic import read_regular, write_atomic

# JSON has no such numbers. These spellings are read as numbers by float() in Python and by Number() in JavaScript.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain(value: Any) -> Any:
    """The value with null in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def dumps(value: Any) -> str:
    """The text of a JSON file."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # The name of a file may hold bytes that are no UTF-8; Python tells them as lone surrogates.
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write(path: Path, value: Any) -> None:
    """Write a value so that whoever looks sees the old file or the new one.

    Raises:
        StorageError: it cannot be written.
    """
    write_atomic(path, dumps(value))


def read(path: Path) -> Any:
    """Read a value.

    Raises:
        StorageError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(_content(path).decode())
    except UnicodeDecodeError:
        raise StorageError(f"{path} is damaged: it is not text") from None
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is damaged: it is not JSON") from None


def read_object(path: Path) -> dict[str, Any]:
    """Read an object.

    Raises:
        StorageError: it cannot be read, or is not an object.
    """
    value = read(path)
    if not isinstance(value, dict):
        raise StorageError(f"{path} is damaged: it is not an object")
    return value


def row_line(row: Mapping[str, Any]) -> bytes:
    """The line of a row in `metrics.jsonl`; "NaN", "Infinity" and "-Infinity" stand for what JSON does not have.

    Raises:
        ProblemError: a value is not a number, other text or None.
    """
    return json.dumps({key: _spelled(key, value) for key, value in row.items()}, allow_nan=False).encode() + b"\n"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`, none if it does not exist; a last line cut short by a kill is left out.

    Raises:
        StorageError: it cannot be read, or another line than the last is damaged.
    """
    *lines, tail = _content(path).split(b"\n") if path.exists() else [b""]
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_row(line))
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{path}:{number}: not a row of a history") from error
    # Without its newline the last line may be cut short; a whole object is whole all the same.
    with contextlib.suppress(ValueError, RecursionError):
        rows.append(_row(tail))
    return rows


def _content(path: Path) -> bytes:
    try:
        return read_regular(path)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def _spelled(key: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not _is_value(value) or value in _NOT_FINITE:
        raise ProblemError(
            f"the value {value!r} of {key!r} cannot go into a history; give a number, other text or None"
        )
    return value


def _row(line: bytes) -> dict[str, Any]:
    """The row of a line; anything else is a ValueError."""
    row = json.loads(line.decode())
    if not isinstance(row, dict) or not all(map(_is_value, row.values())):
        raise ValueError("not an object of plain values")
    return {key: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for key, value in row.items()}


def _is_value(value: Any) -> bool:
    return value is None or isinstance(value, (float, int, str))
