"""Reading tables: CSV with any usual delimiter, or Parquet; every defect is one line that names its place.

A CSV file is looked at twice. `scan` goes over all lines and checks what can be checked without knowing the columns:
encoding, delimiter, header, the number of cells in each line. `load` then lets pandas read the values, numbers as
float32, everything else as text.
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
from shlex import quote
from typing import Any, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bome.errors import ProblemError, StorageError

DELIMITERS = (",", ";", "\t", "|")
LONGEST_CELL = 1 << 17
"""Characters; the limit of Python's csv module. Longer ones come from quotes that are not closed."""
LONGEST_LINE = 1 << 25
"""Characters: 100,000 columns have room, a file without line ends does not fill the memory."""
MOST_COLUMNS = 100_000
SAMPLE = 1000
"""Rows by which the columns of numbers are told from the others."""
NUMBERS_AT_LEAST = 0.95
"""In a column of numbers at least this share of the cells are numbers; the others are mistakes to be named."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "<NA>", "#N/A", "-nan", "-NaN")
LARGEST = 1e30
"""Larger numbers are mistakes; their squares have no room in 32 bits, nor have sums of many."""
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


@dataclass(frozen=True)
class Table:
    """A table in memory.

    Attributes:
        path: where it comes from.
        frame: one column per column read; numbers are float32 and finite, everything else is text.
        lines: the line of the file at which each row starts, or None.
    """

    path: Path
    frame: pd.DataFrame
    lines: Lines | None

    @property
    def numbers(self) -> frozenset[str]:
        """The columns of numbers."""
        return frozenset(str(name) for name, kind in self.frame.dtypes.items() if kind == np.float32)

    def place(self, row: int) -> str:
        """A row as its owner finds it in the file."""
        return f"{self.path}, row {row}" if self.lines is None else f"{self.path}, line {self.lines[row]}"


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


def load(
    found: Scan,
    *,
    strings: Collection[str] = (),
    numbers: Collection[str] | None = None,
    only: Sequence[str],
    droppable: bool = True,
) -> Table:
    """Read the values of a table.

    Args:
        found: what `scan` told of it.
        strings: columns that are text, whatever they hold.
        numbers: the columns of numbers; by default decided by the first rows.
        only: the columns to read.
        droppable: whether a column can be left out with --drop.

    Raises:
        ProblemError: a number is missing, infinite or no number at all; the message names the first.
    """
    if found.delimiter:
        table = _load_csv(found, strings, numbers, only, droppable)
    else:
        table = _load_parquet(found, strings, only)
    if not found.delimiter and numbers is not None and (odd := sorted(set(numbers) - table.numbers)):
        raise ProblemError(f"{found.path}: column {odd[0]!r} must hold numbers, as in the training table")
    _check_finite(table, droppable)
    return table


# --- looking over ----------------------------------------------------------------------------------------------------


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
    mixed = next((name for name in commas if _are_numbers(columns[name], ",")), None)
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


# --- values of CSV ---------------------------------------------------------------------------------------------------


def _load_csv(
    found: Scan, strings: Collection[str], numbers: Collection[str] | None, only: Sequence[str], droppable: bool
) -> Table:
    chosen = _number_columns(found) if numbers is None else set(numbers)
    chosen &= set(only) - set(strings)
    kinds: Any = {name: np.float32 if name in chosen else str for name in only}
    try:
        with np.errstate(over="ignore"):  # numbers too large for 32 bits become infinite, and are refused as such
            frame = pd.read_csv(
                found.path,
                sep=found.delimiter,
                decimal=found.decimal,
                header=0,
                names=list(found.names),
                usecols=list(only),
                index_col=False,
                dtype=kinds,
                keep_default_na=False,
                na_values={name: list(MISSING) for name in chosen},
                encoding="utf-8-sig",
                engine="c",
            )
    except MemoryError:
        raise
    except (ValueError, OSError, OverflowError) as error:  # parser errors are ValueErrors
        raise _not_numbers(found, chosen, droppable) or ProblemError(f"{found.path} cannot be read: {error}") from None
    if found.lines is None or len(frame) != len(found.lines):
        raise ProblemError(f"{found.path} cannot be read: its rows are cut in two ways; save it again as plain CSV")
    return Table(found.path, frame[list(only)], found.lines)


def _number_columns(found: Scan) -> set[str]:
    columns = zip(*found.sample, strict=True)
    return {name for name, cells in zip(found.names, columns, strict=True) if _are_numbers(cells, found.decimal)}


def _are_numbers(cells: Sequence[str], decimal: str) -> bool:
    given = [cell for cell in cells if cell.strip() not in MISSING]
    good = sum(_is_number(cell, decimal) for cell in given)
    return bool(given) and good >= NUMBERS_AT_LEAST * len(given)


def _is_number(cell: str, decimal: str) -> bool:
    return _NUMBER.fullmatch(cell if decimal == "." else cell.replace(decimal, ".")) is not None


def _not_numbers(found: Scan, numbers: Collection[str], droppable: bool) -> ProblemError | None:
    """The first cell that ought to be a number and is none."""
    places = [(index, name) for index, name in enumerate(found.names) if name in numbers]
    with found.path.open(encoding="utf-8-sig") as file:
        counted = _Counted(_lines(found.path, file), 0)
        records = (
            r for r in _records(found.path, counted, found.delimiter) if not isinstance(r[1], str) or r[1].strip()
        )
        next(records)
        for line, cells in records:
            row = cells if isinstance(cells, list) else cells.rstrip("\n").split(found.delimiter)
            for index, name in places:
                if row[index].strip() not in MISSING and not _is_number(row[index], found.decimal):
                    return ProblemError(
                        f"{found.path}, line {line}, column {name!r}: {_shortened(row[index])} is not a number; "
                        f"correct it{_or_drop(name, droppable)}"
                    )
    return None


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _or_drop(name: str, droppable: bool) -> str:
    return f", or leave the column out with --drop {quote(name)}" if droppable else ""


def _check_finite(table: Table, droppable: bool) -> None:
    """Refuse the first cell of the columns of numbers that is missing or infinite."""
    numbers = table.numbers
    for name in (name for name in table.frame.columns if name in numbers):
        values = table.frame[name].to_numpy()
        bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
        if len(bad):
            what = "no number" if np.isnan(values[bad[0]]) else "an infinite or too large number"
            more = f" ({len(bad):,} such cells in this column)" if len(bad) > 1 else ""
            raise ProblemError(
                f"{table.place(int(bad[0]))}, column {name!r} has {what}{more}: fill it in, or remove the row"
                f"{_or_drop(name, droppable)}"
            )


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


def _load_parquet(found: Scan, strings: Collection[str], only: Sequence[str]) -> Table:
    import pyarrow

    try:
        frame = pd.read_parquet(found.path, columns=list(only))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ProblemError(f"{found.path} is a damaged Parquet file: {str(error).splitlines()[0]}") from None
    columns = {name: _parquet_column(found.path, name, frame[name], name in strings) for name in only}
    return Table(found.path, pd.DataFrame(columns), None)


def _parquet_column(path: Path, name: str, column: "pd.Series[Any]", as_text: bool) -> "pd.Series[Any]":
    plain = column.reset_index(drop=True)
    if pd.api.types.is_bool_dtype(plain) or pd.api.types.is_numeric_dtype(plain):
        if not as_text:
            with np.errstate(over="ignore"):
                return plain.astype(np.float32)
        return plain.map(_as_label).fillna("").astype(str)
    if plain.dtype == object and any(isinstance(v, (list, dict, np.ndarray, bytes)) for v in plain.head(SAMPLE)):
        raise ProblemError(f"{path}: column {name!r} holds nested values: leave it out with --drop {quote(name)}")
    return plain.astype(object).where(plain.notna(), "").astype(str)


def _as_label(value: Any) -> str:
    return "" if pd.isna(value) else canonical(str(value))


def canonical(label: str) -> str:
    """A label without spaces around it; whole numbers in one form, so that 3 and 3.0 are the same class."""
    text = label.strip()
    return text[:-2] if re.fullmatch(r"[+-]?[0-9]+\.0", text) else text
