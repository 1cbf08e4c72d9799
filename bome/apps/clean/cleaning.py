"""Cleaning a table of a file: what `bome clean` reads, checks and writes.

clean.json         what was cleaned, by digest; written first
fit/               the state of an unfinished fit, to continue from
weights.csv        a weight for each row, in the order of the input
issues.csv         the suspicious rows, most suspicious first
model.safetensors  the final model, for `bome predict`
report.html        everything on one page
summary.json       the outcome in numbers; written last
"""

import json
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from bome._typing import Array, Matrix
from bome._version import __version__
from bome.apps.clean import saved
from bome.errors import ProblemError, StorageError
from bome.estimators.cleaner import HyperCleaner
from bome.reports import cleaner as page
from bome.reports.cleaner import Shown
from bome.storage.atomic import write_atomic
from bome.storage.memo import digest
from bome.tables import scan
from bome.tables.images import png, thumbnail
from bome.tables.layout import Layout, choose, image_path
from bome.tables.scan import Scan
from bome.tables.values import Table, canonical, load

CLEAN, WEIGHTS, ISSUES, REPORT, SUMMARY, FIT = (
    "clean.json", "weights.csv", "issues.csv", "report.html", "summary.json", "fit",
)  # fmt: skip
FILES = (CLEAN, WEIGHTS, ISSUES, saved.MODEL, REPORT, SUMMARY)
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


# --- reading ---------------------------------------------------------------------------------------------------------


def read(request: Request) -> Inputs:
    """Read and check both tables.

    Raises:
        ProblemError: something in them cannot be right; the message names it.
        StorageError: a file cannot be read.
    """
    found, found_trusted = scan.scan(request.train), scan.scan(request.trusted)
    if request.train.samefile(request.trusted):
        raise ProblemError(f"{request.trusted} is the training table itself: the trusted rows must be others")
    used = _used_columns(found, request)
    _check_same_columns(found, found_trusted, used)
    strings = {request.label, *request.text, *request.image}
    train = load(found, strings=strings, only=used)
    y = _labels(train, request.label)
    _check_classes(request, y)
    trusted = load(found_trusted, strings=set(used) - train.numbers, numbers=train.numbers, only=used)
    trusted_y = _labels(trusted, request.label)
    _check_trusted(request, y, trusted_y)
    layout, counts = choose(train, text=request.text, image=request.image, without={request.label})
    _warn_of_copies(request, train.frame, trusted.frame, layout.columns)
    _check_kinds(layout, trusted)
    layout.warn_of_new_values(trusted)
    x, trusted_x = layout.features(train, counts), layout.features(trusted)
    key = digest([__version__, request.seed, layout, x, y, trusted_x, trusted_y])
    return Inputs(train, layout, x, y, trusted_x, trusted_y, key)


def _used_columns(found: Scan, request: Request) -> tuple[str, ...]:
    named = (
        ("--label", (request.label,)),
        ("--text", request.text),
        ("--image", request.image),
        ("--drop", request.drop),
    )
    for option, names in named:
        for name in names:
            scan.require(found.path, found.names, name, option)
    for option, names in named[1:]:
        if request.label in names:
            raise ProblemError(f"{request.label!r} is the label and cannot be given to {option}")
    if both := sorted({*request.text} & {*request.image} | {*request.text, *request.image} & {*request.drop}):
        raise ProblemError(f"column {both[0]!r} is given to two of --text, --image and --drop")
    return tuple(name for name in found.names if name not in request.drop)


def _check_same_columns(train: Scan, trusted: Scan, used: Sequence[str]) -> None:
    for name in used:
        scan.require(trusted.path, trusted.names, name, f"which {train.path} has", train.names)
    more = [name for name in trusted.names if name not in train.names]
    if more:
        raise ProblemError(f"{trusted.path} has a column {more[0]!r} that {train.path} has not: remove it there")


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
        raise ProblemError(f"{where} has the one label {classes[0]!r}: two classes or more are needed")
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
            raise ProblemError(f"{lacks} has no row labelled {shown}, {has} has: {remedy}")


def _check_kinds(layout: Layout, trusted: Table) -> None:
    """Refuse a column of categories that have nothing in common with those of the training table."""
    for name, new in layout.new_values(trusted):
        if len(new) == len(trusted.frame):
            raise ProblemError(
                f"{trusted.path}: no value of column {name!r} ({str(new.iloc[0])[:40]!r}, ...) stands in the training "
                f"table: are both of the same kind? It can be left out with --drop {quote(name)}"
            )


def _warn_of_copies(request: Request, train: pd.DataFrame, trusted: pd.DataFrame, names: Sequence[str]) -> None:
    """Say so if trusted rows also stand in the training table."""
    marks = [pd.util.hash_pandas_object(frame[list(names)], index=False) for frame in (train, trusted)]
    copies = int(marks[1].isin(marks[0]).sum())
    if copies:
        warnings.warn(
            f"{copies:,} of {len(trusted):,} rows of {request.trusted} also stand in {request.train}: "
            "remove them there, or the model counts them twice",
            UserWarning,
            stacklevel=3,
        )


# --- the folder ------------------------------------------------------------------------------------------------------


def check_folder(folder: Path) -> None:
    """Refuse a folder of something else, before anything is read.

    Raises:
        ProblemError: it is one.
    """
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is a file: choose another --out")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CLEAN).exists():
        raise ProblemError(f"{folder} is not empty and holds no cleaning: choose another --out")


def default_folder(train: Path, key: str) -> Path:
    """A place under `runs/` that is free, or holds the very same cleaning."""
    from bome.runs.directory import free_place  # not above: it imports the package itself

    return free_place(f"clean-{train.stem[:100]}", lambda place: _digest_of(place) == key)


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """The summary of the very same cleaning, if it is complete."""
    if not all((folder / name).is_file() for name in FILES) or _digest_of(folder) != key:
        return None
    summary = _read_json(folder / SUMMARY)
    return summary if summary.get("digest") == key else None


def prepare(folder: Path, key: str, command: str) -> None:
    """Make the folder of a cleaning; an unfinished fit of the same inputs stays.

    Raises:
        ProblemError: the folder holds the cleaning of something else.
        StorageError: it cannot be written.
    """
    check_folder(folder)
    if (folder / CLEAN).exists() and _digest_of(folder) != key:
        raise ProblemError(f"{folder} holds the cleaning of other data or settings: choose another --out")
    write_atomic(folder / CLEAN, _dump({"digest": key, "command": command, "version": __version__}))


def _digest_of(folder: Path) -> str | None:
    path = folder / CLEAN
    return str(_read_json(path).get("digest")) if path.is_file() else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is damaged: it is not JSON; remove its folder and start again") from None
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged: it is not an object; remove its folder and start again")
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def write(
    folder: Path, request: Request, inputs: Inputs, cleaner: HyperCleaner, *, command: str, seconds: float
) -> dict[str, Any]:
    """Write everything that a fitted cleaner has to say.

    Returns:
        The summary.
    """
    issues = cleaner.label_issues()
    wrong = page.suspicious(issues)
    lines = inputs.train.lines
    write_table(folder / WEIGHTS, pd.DataFrame({"row": np.arange(len(inputs.y)), "weight": cleaner.sample_weight_}))
    if lines is not None:
        wrong = wrong.assign(line=lines[wrong["row"].to_numpy(dtype=np.int64)])
        wrong = wrong[["line", *(name for name in wrong.columns if name != "line")]]
    write_table(folder / ISSUES, wrong)
    saved.save(folder / saved.MODEL, saved.of_cleaner(cleaner, inputs.layout, request.label))
    rows = Display(inputs.train, inputs.layout)
    page.write(folder / REPORT, cleaner, rows, title=f"Labels of {request.train.name}", command=command)
    summary = {
        "status": "finished",
        "digest": inputs.digest,
        "rows": len(inputs.y),
        "trusted_rows": len(inputs.trusted_y),
        "features": int(inputs.x.shape[1]),
        "classes": [str(name) for name in cleaner.classes_],
        "suspicious": len(wrong),
        "noise_rate": cleaner.noise_rate_,
        "choice": cleaner.choice_,
        "choice_reason": cleaner.choice_reason_,
        "candidates": page.candidates(cleaner),
        "certificate": cleaner.certificate_.to_dict() if cleaner.certificate_ is not None else None,
        "steps": int(cleaner.n_iter_),
        "seconds": seconds,
        "command": command,
        "version": __version__,
    }
    write_atomic(folder / SUMMARY, _dump(summary))
    shutil.rmtree(folder / FIT, ignore_errors=True)
    return summary


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a CSV file in which no cell is a formula to a spreadsheet."""
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]):
            safe[name] = [harmless(str(value)) for value in safe[name]]
    safe.columns = pd.Index([harmless(str(name)) for name in safe.columns])
    write_atomic(path, safe.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def harmless(cell: str) -> str:
    """The cell with an apostrophe before it if a spreadsheet would compute it; numbers stay numbers."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) or re.fullmatch(
        r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", cell
    ):
        return cell
    return f"'{cell}"


def _dump(value: dict[str, Any]) -> str:
    from bome.runs.directory import plain

    return json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# --- showing rows ----------------------------------------------------------------------------------------------------


class Display:
    """Shows a row of a table: its text, its image, or, where the numbers are pixels, these."""

    def __init__(self, table: Table, layout: Layout) -> None:
        self._table, self._layout = table, layout
        self._side = _side(table.frame, layout)

    def __call__(self, row: int) -> Shown:
        """The row as people see it."""
        place = self._table.place(row).removeprefix(f"{self._table.path}, ")
        return Shown(place, self._text(row), self._image(row))

    def _text(self, row: int) -> str:
        frame, layout = self._table.frame, self._layout
        if layout.texts:
            return " · ".join(str(frame[part.name].iloc[row]) for part in layout.texts)
        if layout.images or self._side:
            return ""
        names = layout.columns[:12]
        cells = [frame[name].iloc[row] for name in names]
        told = [
            f"{name} {cell:.4g}" if isinstance(cell, float | np.floating) else f"{name} {cell}"
            for name, cell in zip(names, cells, strict=True)
        ]
        return ", ".join(told) + (", …" if len(layout.columns) > len(names) else "")

    def _image(self, row: int) -> bytes | None:
        if self._layout.images:
            return thumbnail(image_path(self._table, self._layout.images[0].name, row))
        if not self._side:
            return None
        from PIL import Image

        values = self._table.frame.loc[row, list(self._layout.numbers)].to_numpy(dtype=np.float64)
        grey = (255 * values / max(values.max(), 1.0)).astype(np.uint8).reshape(self._side, self._side)
        return png(Image.fromarray(grey))


def _side(frame: pd.DataFrame, layout: Layout) -> int:
    """The side of a square picture of which the columns are the pixels in order; 0 if they are something else."""
    names = layout.numbers
    side = round(len(names) ** 0.5)
    numbered = [re.fullmatch(r"(.*?)([0-9]+)", name) for name in names]
    if side < 8 or side * side != len(names) or layout.columns != names or not all(numbered):
        return 0
    parts = [(match[1], int(match[2])) for match in numbered if match]
    start = parts[0][1]
    ordered = start in (0, 1) and parts == [(parts[0][0], start + i) for i in range(len(parts))]
    values = frame[list(names)].head(100).to_numpy()
    return side if ordered and bool((values >= 0).all()) and bool((values == np.round(values)).all()) else 0
