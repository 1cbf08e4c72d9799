"""The values of a table that was looked over: numbers as float32 and finite, everything else as text."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from bome.errors import ProblemError
from bome.tables.scan import MISSING, SAMPLE, Lines, Scan, are_numbers, is_number, rows

LARGEST = 1e30
"""Larger numbers are mistakes; their squares have no room in 32 bits, nor have sums of many."""


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


def load(
    source: Scan,
    *,
    strings: Collection[str] = (),
    numbers: Collection[str] | None = None,
    only: Sequence[str],
    droppable: bool = True,
) -> Table:
    """Read the values of a table.

    Args:
        source: what `scan` says of it.
        strings: columns that are text, whatever they hold.
        numbers: the columns of numbers; by default decided by the first rows.
        only: the columns to read.
        droppable: whether a column can be left out with --drop.

    Raises:
        ProblemError: a number is missing, infinite or no number at all; the message names the first.
    """
    if source.delimiter:
        table = _load_csv(source, strings, numbers, only, droppable)
    else:
        table = _load_parquet(source, strings, only)
    if not source.delimiter and numbers is not None and (odd := sorted(set(numbers) - table.numbers)):
        raise ProblemError(f"{source.path}: column {odd[0]!r} must hold numbers, as in the training table")
    _check_finite(table, droppable)
    return table


def canonical(label: str) -> str:
    """A label without spaces around it; whole numbers in one form, so that 3 and 3.0 are the same class."""
    text = label.strip()
    return text[:-2] if re.fullmatch(r"[+-]?[0-9]+\.0", text) else text


# --- CSV ------------------------------------------------------------------------------------------------------------


def _load_csv(
    source: Scan, strings: Collection[str], numbers: Collection[str] | None, only: Sequence[str], droppable: bool
) -> Table:
    chosen = _number_columns(source) if numbers is None else set(numbers)
    chosen &= set(only) - set(strings)
    kinds: Any = {name: np.float32 if name in chosen else str for name in only}
    try:
        with np.errstate(over="ignore"):  # numbers too large for 32 bits become infinite, and are refused as such
            frame = pd.read_csv(
                source.path,
                sep=source.delimiter,
                decimal=source.decimal,
                header=0,
                names=list(source.names),
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
        raise _not_numbers(source, chosen, droppable) or ProblemError(
            f"{source.path} cannot be read: {error}"
        ) from None
    if source.lines is None or len(frame) != len(source.lines):
        raise ProblemError(
            f"{source.path} cannot be read: its quotes or line ends have two readings; save it again as plain CSV"
        )
    return Table(source.path, frame[list(only)], source.lines)


def _number_columns(source: Scan) -> set[str]:
    columns = zip(*source.sample, strict=True)
    return {name for name, cells in zip(source.names, columns, strict=True) if are_numbers(cells, source.decimal)}


def _not_numbers(source: Scan, numbers: Collection[str], droppable: bool) -> ProblemError | None:
    """The first cell that ought to be a number and is none."""
    places = [(index, name) for index, name in enumerate(source.names) if name in numbers]
    for line, row in rows(source):
        for index, name in places:
            if row[index].strip() not in MISSING and not is_number(row[index], source.decimal):
                return ProblemError(
                    f"{source.path}, line {line}, column {name!r}: {_shortened(row[index])} is not a number; "
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


def _load_parquet(source: Scan, strings: Collection[str], only: Sequence[str]) -> Table:
    import pyarrow

    try:
        frame = pd.read_parquet(source.path, columns=list(only))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ProblemError(f"{source.path} is a damaged Parquet file: {str(error).splitlines()[0]}") from None
    columns = {name: _parquet_column(source.path, name, frame[name], name in strings) for name in only}
    return Table(source.path, pd.DataFrame(columns), None)


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
