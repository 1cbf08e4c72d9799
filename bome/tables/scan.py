"""Looking over a table before its values are read: CSV with any usual delimiter, or Parquet.

`scan` goes over all lines of a CSV file and checks what can be checked without knowing the columns: encoding,
delimiter, header, the number of cells in each line. Every defect is one line that names its place.
"""

import csv
import difflib
import os
import re
import stat
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from bome.errors import ProblemError, StorageError

DELIMITERS = (",", ";", "\t", "|")
LONGEST_CELL = 1 << 17
"""Characters; the limit of Python's csv module. Longer ones come from quotes that are not closed."""
LONGEST_LINE = 1 << 25
"""Characters: 100,000 columns have room, a file without line ends does not fill the memory."""
MOST_COLUMNS = 100_000
SAMPLE = 1000
"""Rows that decide which columns hold numbers."""
NUMBERS_AT_LEAST = 0.95
"""In a column of numbers at least this share of the cells are numbers; the others are mistakes to be named."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>", "#N/A", "-nan", "-NaN")
FIRST_UNNAMED = "Unnamed: 0"
"""The name of a first column without one: pandas and R write their row names so."""

_NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)\s*", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")
_POINT_NUMBER = re.compile(r"\s*[+-]?[0-9]*\.[0-9]+\s*")
_KINDS_OF_BINARY = (
    (b"PK\x03\x04", "an Excel workbook or a zip archive: save the table as CSV"),
    (b"\x1f\x8b", "compressed by gzip: unpack it with 'gunzip'"),
    (b"BZh", "compressed by bzip2: unpack it with 'bunzip2'"),
    (b"\xfd7zXZ", "compressed by xz: unpack it with 'unxz'"),
    (b"(\xb5/\xfd", "compressed by zstd: unpack it with 'unzstd'"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the table as CSV"),
    (b"%PDF", "a PDF document, not a table"),
    (b"\x89PNG", "a picture, not a table"),
    (b"\xff\xd8\xff", "a picture, not a table"),
    (b"SQLite format 3", "a database: export the table as CSV"),
    (b"\xff\xfe", "in UTF-16: convert it with 'iconv -f UTF-16 -t UTF-8'"),
    (b"\xfe\xff", "in UTF-16: convert it with 'iconv -f UTF-16 -t UTF-8'"),
)
_PARQUET = b"PAR1"

Lines = NDArray[np.int64]


@dataclass(frozen=True)
class Scan:
    """What is known of a table before its values are read.

    Attributes:
        path: the file.
        names: the columns, in order.
        lines: the line of the file at which each row starts; None for Parquet, which has no lines.
        delimiter: between cells; empty for Parquet.
        decimal: the sign before the fraction of a number.
        sample: the first rows of a CSV file, as text.
    """

    path: Path
    names: tuple[str, ...]
    lines: Lines | None = None
    delimiter: str = ""
    decimal: str = "."
    sample: tuple[tuple[str, ...], ...] = ()


def require(path: Path, names: Sequence[str], wanted: str, option: str = "", taken: Collection[str] = ()) -> None:
    """Check that a table has a column.

    Args:
        path: of the table.
        names: of its columns.
        wanted: the name of the one.
        option: by what it is asked for.
        taken: names that cannot be meant.

    Raises:
        ProblemError: it has not; the nearest name is suggested.
    """
    if wanted in names:
        return
    near = difflib.get_close_matches(wanted, [name for name in names if name not in taken], n=1, cutoff=0.5)
    folded = [name for name in names if name.casefold() == wanted.casefold()]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    hint = f"did you mean {(folded or near)[0]!r}?" if folded or near else f"it has {shown}"
    if names and all(_NUMBER.fullmatch(name) for name in names):
        hint = "its first line holds numbers: put the names of the columns there"
    raise ProblemError(f"{path} has no column {wanted!r}{f' ({option})' if option else ''}; {hint}")


def scan(path: Path) -> Scan:
    """Look over a table.

    Raises:
        ProblemError: the file is no table; the message says why, and where.
        StorageError: it cannot be read.
    """
    head = _opening(path)
    if head.startswith(_PARQUET):
        return _scan_parquet(path)
    for magic, kind in _KINDS_OF_BINARY:
        if head.startswith(magic):
            raise ProblemError(f"{path} is {kind}")
    if path.suffix.lower() == ".parquet":
        raise ProblemError(f"{path} is not a Parquet file: give it its right name, or write it again")
    try:
        with path.open(encoding="utf-8-sig") as file:  # all kinds of line ends
            return _scan_lines(path, _lines(path, file))
    except UnicodeDecodeError:
        raise _undecodable(path) from None
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def rows(table: Scan) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows of a CSV file once more: the line each starts at, and its cells as text."""
    with table.path.open(encoding="utf-8-sig") as file:
        records = _records(table.path, _Counted(_lines(table.path, file), 0), table.delimiter)
        filled = (record for record in records if not isinstance(record[1], str) or record[1].strip())
        next(filled)  # the header
        for line, cells in filled:
            yield line, cells if isinstance(cells, list) else cells.rstrip("\n").split(table.delimiter)


def are_numbers(cells: Sequence[str], decimal: str) -> bool:
    """Whether a column of such cells is one of numbers."""
    given = [cell for cell in cells if cell.strip() not in MISSING]
    good = sum(is_number(cell, decimal) for cell in given)
    return bool(given) and good >= NUMBERS_AT_LEAST * len(given)


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell is a number, also an infinite one."""
    return _NUMBER.fullmatch(cell if decimal == "." else cell.replace(decimal, ".")) is not None


# --- CSV ------------------------------------------------------------------------------------------------------------


def _opening(path: Path) -> bytes:
    """The first bytes of a regular file."""
    try:
        info = os.stat(path)
    except FileNotFoundError:
        raise ProblemError(f"{path} does not exist{_nearest_file(path)}") from None
    except (OSError, ValueError) as error:
        raise ProblemError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if stat.S_ISDIR(info.st_mode):
        raise ProblemError(f"{path} is a directory: name a CSV or Parquet file in it")
    if not stat.S_ISREG(info.st_mode):  # a pipe might never end
        raise ProblemError(f"{path} is not a regular file: write its content to one first")
    if info.st_size == 0:
        raise ProblemError(f"{path} is empty")
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def _nearest_file(path: Path) -> str:
    try:
        names = os.listdir(path.parent)
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"; did you mean {str(path.parent / near[0])!r}?" if near else ""


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """The lines of a text file, none of them endless."""
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE:
            raise ProblemError(f"{path}, line {number} has more than {LONGEST_LINE:,} characters: is this a table?")
        if "\0" in line:
            raise ProblemError(f"{path}, line {number} holds a zero byte: this is not a text file")
        yield line


def _scan_lines(path: Path, lines: Iterator[str]) -> Scan:
    first, skipped = next(((line, n) for n, line in enumerate(lines) if line.strip()), ("", 0))
    if not first:
        raise ProblemError(f"{path} is empty")
    delimiter = _delimiter(first)
    counted = _Counted(chain([first], lines), skipped)
    records = _records(path, counted, delimiter)
    _, header = next(records)
    names = _names(path, header if isinstance(header, list) else first.rstrip("\n").split(delimiter))
    starts: array[int] = array("q")
    sample: list[tuple[str, ...]] = []
    for start, cells in records:
        width = len(cells) if isinstance(cells, list) else cells.count(delimiter) + 1
        if width != len(names):
            raise ProblemError(_ragged(path, start, width, len(names)))
        starts.append(start)
        if len(sample) < SAMPLE:
            sample.append(tuple(cells if isinstance(cells, list) else cells.rstrip("\n").split(delimiter)))
    if not starts:
        raise ProblemError(f"{path} has a header and no rows")
    return Scan(path, names, np.array(starts), delimiter, _decimal(path, names, delimiter, sample), tuple(sample))


class _Counted:
    """Lines, counted as they are taken."""

    def __init__(self, lines: Iterator[str], before: int) -> None:
        self._lines, self.taken = lines, before

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.taken += 1
        return line


def _records(path: Path, lines: _Counted, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Each record with the line it starts at; as cells where there are quotes, otherwise as the line itself."""
    for line in lines:
        start = lines.taken
        if '"' in line:
            try:
                yield start, next(csv.reader(chain([line], lines), delimiter=delimiter, strict=True))
            except csv.Error as error:
                raise ProblemError(_misquoted(path, start, str(error))) from None
        elif delimiter in line or line.strip():
            yield start, line


def _ragged(path: Path, line: int, width: int, expected: int) -> str:
    cells = "1 cell" if width == 1 else f"{width} cells"
    return (
        f"{path}, line {line} has {cells}, the header has {expected}: "
        "put cells that contain the delimiter in quotes, or mend the line"
    )


def _misquoted(path: Path, line: int, reason: str) -> str:
    if "larger than field limit" in reason:
        return f"{path}, line {line} has a cell of more than {LONGEST_CELL:,} characters: is a quote not closed?"
    if "unexpected end" in reason:
        return f"{path}, line {line} opens a quote that is never closed"
    return f"{path}, line {line} has a quote in the wrong place ({reason}): double quotes inside a quoted cell"


def _delimiter(header: str) -> str:
    """The delimiter that cuts the header into most cells, quotes left aside."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=bare.count)


def _names(path: Path, cells: Sequence[str]) -> tuple[str, ...]:
    names = [cell.strip() for cell in cells]
    if len(names) > 1 and not names[0]:
        names[0] = FIRST_UNNAMED
    if len(names) > MOST_COLUMNS:
        raise ProblemError(f"{path} has {len(names):,} columns; at most {MOST_COLUMNS:,} can be read")
    if "" in names:
        raise ProblemError(f"{path}: column {names.index('') + 1} has no name: name it in the first line")
    _check_distinct(path, names)
    return tuple(names)


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"{path} has two columns {name!r}: rename one of them")
        seen.add(name)


def _decimal(path: Path, names: Sequence[str], delimiter: str, sample: Sequence[Sequence[str]]) -> str:
    """A comma in place of the decimal point, where cells are of that form and none has a point."""
    if delimiter == ",":
        return "."
    columns = dict(zip(names, zip(*sample, strict=True), strict=True))
    commas = [name for name, cells in columns.items() if any(map(_COMMA_NUMBER.fullmatch, cells))]
    points = [name for name, cells in columns.items() if any(map(_POINT_NUMBER.fullmatch, cells))]
    if not commas or not points:
        return "," if commas else "."
    mixed = next((name for name in commas if are_numbers(columns[name], ",")), None)
    if mixed is not None:
        raise ProblemError(
            f"{path}: column {mixed!r} has numbers with a comma, column {points[0]!r} with a point: write all of them "
            "with the same sign"
        )
    return "."


def _undecodable(path: Path) -> ProblemError:
    """Where a file stops being UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start]
                return ProblemError(
                    f"{path}, line {number}, byte {error.start + 1} (0x{byte:02x}) is not UTF-8: convert the file, "
                    "for example with 'iconv -f WINDOWS-1252 -t UTF-8'"
                )
    return ProblemError(f"{path} is not UTF-8: convert it with 'iconv -t UTF-8'")


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _scan_parquet(path: Path) -> Scan:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ProblemError(f"{path} is a Parquet file: reading it needs pip install 'bome[parquet]'") from None
    try:
        file = parquet.ParquetFile(path)
        names, rows = [str(name) for name in file.schema_arrow.names], int(file.metadata.num_rows)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ProblemError(f"{path} is a damaged Parquet file: {str(error).splitlines()[0]}") from None
    if rows == 0:
        raise ProblemError(f"{path} has no rows")
    _check_distinct(path, names)
    return Scan(path, tuple(names))
