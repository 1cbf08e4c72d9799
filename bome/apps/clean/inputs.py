"""What is to be cleaned: two tables of files, read and checked."""

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bome._typing import Array, Matrix
from bome._version import __version__
from bome.errors import ProblemError
from bome.storage.command import command_line
from bome.storage.memo import digest
from bome.tables.layout import Layout, choose
from bome.tables.scan import Scan, require, scan
from bome.tables.values import Table, canonical, load

MOST_CLASSES = 1000


@dataclass(frozen=True)
class Request:
    """What is to be cleaned.

    Attributes:
        train: the table with labels to be judged.
        trusted: a table with the same columns and labels known to be right.
        label: the name of the label's column.
        text: columns that are text.
        image: columns of paths to images.
        drop: columns to leave out.
        seed: of whatever is drawn.
    """

    train: Path
    trusted: Path
    label: str
    text: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    seed: int = 0

    def command(self, out: Path) -> str:
        """The complete command."""
        columns = {"label": self.label, "text": self.text, "image": self.image, "drop": self.drop}
        return command_line("clean", self.train, trusted=self.trusted, **columns, out=out, seed=self.seed)


@dataclass(frozen=True)
class Inputs:
    """Two tables, read and checked.

    Attributes:
        train: the training table.
        layout: what its columns are.
        x: its features.
        y: its labels, as text.
        trusted_x: the features of the trusted table.
        trusted_y: its labels.
        digest: of all of this and of the seed.
    """

    train: Table
    layout: Layout
    x: Matrix
    y: Array
    trusted_x: Matrix
    trusted_y: Array
    digest: str


def read(request: Request) -> Inputs:
    """Read and check both tables.

    Raises:
        ProblemError: something in them cannot be right; the message names it.
        StorageError: a file cannot be read.
    """
    source, trusted_source = scan(request.train), scan(request.trusted)
    if request.train.samefile(request.trusted):
        raise ProblemError(f"{request.trusted} is the training table itself: name a table of other rows")
    used = _used_columns(source, request)
    _check_same_columns(source, trusted_source, used)
    strings = {request.label, *request.text, *request.image}
    train = load(source, strings=strings, only=used)
    y = _labels(train, request.label)
    _check_classes(request, y)
    trusted = load(trusted_source, strings=set(used) - train.numbers, numbers=train.numbers, only=used)
    trusted_y = _labels(trusted, request.label)
    _check_trusted(request, y, trusted_y)
    layout, counts = choose(train, text=request.text, image=request.image, without={request.label})
    _warn_of_copies(request, train.frame, trusted.frame, layout.columns)
    _check_kinds(layout, trusted)
    layout.warn_of_new_values(trusted)
    x, trusted_x = layout.features(train, counts), layout.features(trusted)
    key = digest([__version__, request.seed, layout, x, y, trusted_x, trusted_y])
    return Inputs(train, layout, x, y, trusted_x, trusted_y, key)


def _used_columns(source: Scan, request: Request) -> tuple[str, ...]:
    named = (
        ("--label", (request.label,)),
        ("--text", request.text),
        ("--image", request.image),
        ("--drop", request.drop),
    )
    for option, names in named:
        for name in names:
            require(source.path, source.names, name, option)
    for option, names in named[1:]:
        if request.label in names:
            raise ProblemError(f"{request.label!r} is the label and cannot be given to {option}")
    if both := sorted({*request.text} & {*request.image} | {*request.text, *request.image} & {*request.drop}):
        raise ProblemError(f"column {both[0]!r} is given to two of --text, --image and --drop")
    return tuple(name for name in source.names if name not in request.drop)


def _check_same_columns(train: Scan, trusted: Scan, used: Sequence[str]) -> None:
    for name in used:
        require(trusted.path, trusted.names, name, f"which {train.path} has", train.names)
    more = [name for name in trusted.names if name not in train.names]
    if more:
        raise ProblemError(f"{trusted.path} has a column {more[0]!r} that {train.path} does not have: remove it there")


def _labels(table: Table, label: str) -> Array:
    y = np.array([canonical(value) for value in table.frame[label]], dtype=object)
    empty = np.flatnonzero(y == "")
    if len(empty):
        raise ProblemError(f"{table.place(int(empty[0]))}, column {label!r} has no label: fill it in or remove the row")
    return y


def _check_classes(request: Request, y: Array) -> None:
    classes = sorted(set(y))
    where = f"{request.train}, column {request.label!r}"
    if len(classes) == 1:
        raise ProblemError(f"{where} has only the label {classes[0]!r}: two classes or more are needed")
    if len(classes) == len(y):
        raise ProblemError(f"{where} has another value in each of {len(y)} rows: is it the label?")
    if len(classes) > MOST_CLASSES:
        raise ProblemError(f"{where} has {len(classes):,} different labels; at most {MOST_CLASSES:,}: is it the label?")


def _check_trusted(request: Request, y: Array, trusted_y: Array) -> None:
    for names, has, lacks in (
        (set(y) - set(trusted_y), request.train, request.trusted),
        (set(trusted_y) - set(y), request.trusted, request.train),
    ):
        if names:
            shown = ", ".join(map(repr, sorted(names)[:5])) + (" and others" if len(names) > 5 else "")
            remedy = "add rows of each class" if lacks == request.trusted else "is it misspelt?"
            raise ProblemError(f"{lacks} has no row labelled {shown}, but {has} has: {remedy}")


def _check_kinds(layout: Layout, trusted: Table) -> None:
    """Refuse a column of categories that have nothing in common with those of the training table."""
    for name, new in layout.new_values(trusted):
        if len(new) == len(trusted.frame):
            raise ProblemError(
                f"{trusted.path}: no value of column {name!r} ({str(new.iloc[0])[:40]!r}, ...) occurs in the training "
                f"table: do both tables mean the same by it? It can be left out with --drop {shlex.quote(name)}"
            )


def _warn_of_copies(request: Request, train: pd.DataFrame, trusted: pd.DataFrame, names: Sequence[str]) -> None:
    """Say so if trusted rows are also in the training table."""
    marks = [pd.util.hash_pandas_object(frame[list(names)], index=False) for frame in (train, trusted)]
    copies = int(marks[1].isin(marks[0]).sum())
    if copies:
        warnings.warn(
            f"{copies:,} of {len(trusted):,} rows of {request.trusted} are also in {request.train}: "
            "remove them there, or the model counts them twice",
            UserWarning,
            stacklevel=3,
        )
