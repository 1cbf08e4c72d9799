"""The history of a run: one row of named values per record, in memory and, if wanted, in `metrics.jsonl`."""

import contextlib
import math
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from bome.errors import ProblemError, StorageError
from bome.storage.atomic import write_atomic
from bome.storage.jsonfile import read_rows, row_line

Value = float | int | str | None
Row = dict[str, Value]


MEASURED = ("f", "g", "q", "lam", "kkt_gradient", "kkt", "cos", "tail")
"""What steps measure; a method that does not measure one of them has no such column."""


class History:
    """Rows of named values, appended one at a time.

    `History()` lives in memory. `History.open(path)` continues the rows of a file, one JSON object per line; each row
    is with the operating system when `append` returns, so that a killed process loses at most the row it was
    writing. NaN and the infinities are written as the strings "NaN", "Infinity" and "-Infinity" and come back as
    numbers; these three texts are therefore not accepted as text.

    Attributes:
        rows: all rows so far, oldest first; to be read, not changed.

    Example:
        >>> history = History()
        >>> history.append({"step": 0, "f": 0.5})
        >>> history.append({"step": 1, "f": 0.25, "note": "evaluated"})
        >>> history.column("f")
        [0.5, 0.25]
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._path: Path | None = None
        self._file: FileIO | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the rows of a file, created if missing, and append to it from now on.

        A last line cut short by a kill is removed from the file.

        Raises:
            StorageError: the file cannot be read or written, or another line than the last is damaged.
        """
        history = cls()
        history._path, history.rows = path, read_rows(path)
        if not path.exists() or path.read_bytes() != _render(history.rows):
            write_atomic(path, _render(history.rows))
        history._reopen(path)
        return history

    def __len__(self) -> int:
        return len(self.rows)

    def append(self, row: Mapping[str, Value]) -> None:
        """Add a row; it is stored whole or not at all.

        Raises:
            ProblemError: a value is not a number, text or None.
            StorageError: the file cannot be written.
        """
        line = row_line(row)
        if self._path is not None:
            self._write(self._path, line)
        self.rows.append(dict(row))

    def truncate(self, step: int) -> None:
        """Forget the rows of later steps, so that a resumed run repeats them as if it had never been interrupted.

        A row belongs to the step in its column "step"; rows without one stay.
        """
        self.rows = [row for row in self.rows if _step(row) <= step]
        if self._path is not None:
            self.close()
            write_atomic(self._path, _render(self.rows))
            self._reopen(self._path)

    def column(self, name: str) -> list[float]:
        """Return one value per row; NaN where the row has no number of that name, as λ in a run of a method without λ.

        Raises:
            ProblemError: there are rows, none has that name, and it is nothing that other methods measure.
        """
        if self.rows and name not in MEASURED and not any(name in row for row in self.rows):
            known = ", ".join(sorted({key for row in self.rows for key in row}))
            raise ProblemError(f"the history has no column {name!r}; it has {known}")
        return [_number(row.get(name)) for row in self.rows]

    def flush(self) -> None:
        """Force the rows to disk. Call it before saving a checkpoint, which must not be newer than its history."""
        if self._path is None:
            return
        file = self._opened()
        try:
            os.fsync(file)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file; the rows stay readable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reopen(self, path: Path) -> None:
        try:
            self._file = FileIO(path, "ab")  # unbuffered: nothing waits in this process
        except OSError as error:
            raise _unwritable(path, error) from error

    def _opened(self) -> FileIO:
        if self._file is None:
            raise StorageError(f"cannot write {self._path}: the history is closed")
        return self._file

    def _write(self, path: Path, line: bytes) -> None:
        descriptor = self._opened().fileno()
        start = os.fstat(descriptor).st_size
        try:
            rest = memoryview(line)
            while rest:  # a disk that is filling up takes only part of a line at first
                rest = rest[os.write(descriptor, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, start)  # half a line would spoil the next one
            raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot write {path}: {error.strerror}")


def _render(rows: list[Row]) -> bytes:
    return b"".join(map(row_line, rows))


def _step(row: Row) -> float:
    step = row.get("step")
    return step if isinstance(step, (int, float)) else -math.inf


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
