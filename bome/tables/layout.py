"""From the columns of a table to features.

Numbers stay as they are, dates become numbers of days, categories one column per level, text is weighed by TF-IDF,
images by their pixels. A `Layout` says what each column is and holds what was learned from the training table (levels,
vocabulary); it can be written as JSON, so that a saved model applies to other tables.
"""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from bome._typing import Matrix
from bome.errors import ProblemError
from bome.tables.encoder import Category
from bome.tables.images import EXTENSIONS, Shape, pixels, shape_of
from bome.tables.values import Table

MOST_LEVELS = 1000
"""Of a category; rarer ones count as none of them."""
MOST_WORDS = 20_000
"""Of a vocabulary."""
DATE = r"\s*\d{4}-\d{2}-\d{2}(?:[T ].*)?"
"""How a date begins."""
THOUSANDS = r"\s*[+-]?\d{1,3}(?:[,' ]\d{3})+(?:\.\d*)?\s*"
"""A number with marks between its thousands."""
WORDS_OF_TEXT = 3
"""In a column of text a cell has at least this many words on average."""
DENSE_WIDTH = 256
"""Up to this many columns of levels are kept as a dense matrix."""

Counts = Mapping[str, sparse.csr_matrix]
"""By column of text: how often each row has each word of the vocabulary."""


@dataclass(frozen=True)
class Date:
    """A column of dates, with the mean and the deviation of their days."""

    name: str
    centre: float
    scale: float


@dataclass(frozen=True)
class Text:
    """A column of text: one feature per word of the vocabulary, by TF-IDF with logarithmic counts."""

    name: str
    vocabulary: tuple[str, ...]
    idf: tuple[float, ...]


@dataclass(frozen=True)
class Images:
    """A column of paths to images, relative to the folder of the table."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Layout:
    """What the columns are.

    Attributes:
        numbers: the columns of numbers.
        centre: subtracted from each; empty where they are left as they are.
        scale: then divided by.
        dates: the columns of dates.
        categories: the columns of categories.
        texts: the columns of text.
        images: the columns of images.
    """

    numbers: tuple[str, ...] = ()
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    dates: tuple[Date, ...] = ()
    categories: tuple[Category, ...] = ()
    texts: tuple[Text, ...] = ()
    images: tuple[Images, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns used."""
        parts: tuple[Date | Category | Text | Images, ...] = (
            *self.dates, *self.categories, *self.texts, *self.images,
        )  # fmt: skip
        return (*self.numbers, *(part.name for part in parts))

    @property
    def is_sparse(self) -> bool:
        """Whether the features are a sparse matrix."""
        return bool(self.texts) or sum(len(part.levels) for part in self.categories) > DENSE_WIDTH

    def features(self, table: Table, counts: Counts | None = None) -> Matrix:
        """The features of a table that has all columns.

        Args:
            table: has all columns.
            counts: the words of its columns of text, where `choose` has counted them already.

        Raises:
            ProblemError: an image cannot be read, or a cell is no date.
        """
        blocks: list[Any] = []
        if self.numbers:
            blocks.append(self._numbers(table.frame))
        blocks += [_standard_days(table, part) for part in self.dates]
        blocks += [part.encode(table.frame[part.name]) for part in self.categories]
        blocks += [_weighed(part, counts[part.name] if counts else _counted(table, part)) for part in self.texts]
        blocks += [_pixels(table, part) for part in self.images]
        if self.is_sparse:
            return sparse.csr_matrix(sparse.hstack(blocks, format="csr", dtype=np.float32))
        dense = [block.toarray() if sparse.issparse(block) else block for block in blocks]
        return dense[0] if len(dense) == 1 else np.hstack(dense).astype(np.float32, copy=False)

    def new_values(self, table: Table) -> "Iterator[tuple[str, pd.Series[Any]]]":
        """By column of categories, the cells with values that the training table does not have: they are ignored."""
        for part in self.categories:
            column = table.frame[part.name]
            new = column[~column.isin(part.levels)]
            if len(new) and len(part.levels) < MOST_LEVELS:
                yield part.name, new

    def warn_of_new_values(self, table: Table) -> None:
        """Warn of such cells."""
        for name, new in self.new_values(table):
            cells = "1 cell" if len(new) == 1 else f"{len(new):,} cells"
            where = f"{table.path}: column {name!r} has {cells} with values that the training table does not have"
            warnings.warn(f"{where}, such as {str(new.iloc[0])[:40]!r}", UserWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Layout":
        """Undo `to_dict`; raises one of the built-in errors if the value was not made by it."""
        return cls(
            numbers=_strings(saved["numbers"]),
            centre=tuple(map(float, saved["centre"])),
            scale=tuple(map(float, saved["scale"])),
            dates=tuple(Date(str(d["name"]), float(d["centre"]), float(d["scale"])) for d in saved.get("dates", ())),
            categories=tuple(Category(str(c["name"]), _strings(c["levels"])) for c in saved["categories"]),
            texts=tuple(
                Text(str(t["name"]), _strings(t["vocabulary"]), tuple(map(float, t["idf"]))) for t in saved["texts"]
            ),
            images=tuple(
                Images(str(i["name"]), Shape(str(i["shape"]["mode"]), int(i["shape"]["side"]))) for i in saved["images"]
            ),
        )

    def _numbers(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        values: NDArray[np.float32] = frame[list(self.numbers)].to_numpy(dtype=np.float32, copy=True)
        if self.centre:
            values -= np.asarray(self.centre, dtype=np.float32)
            values /= np.asarray(self.scale, dtype=np.float32)
        return values


def choose(
    table: Table, *, text: Collection[str] = (), image: Collection[str] = (), without: Collection[str]
) -> tuple[Layout, Counts]:
    """Decide by a training table what its columns are.

    Args:
        table: the training table.
        text: columns that are text.
        image: columns of paths to images.
        without: columns that are no features, such as the label.

    Returns:
        The layout, and the words of the table's columns of text, so that nobody has to count them again.

    Raises:
        ProblemError: no column is left, or an image cannot be read.
    """
    numbers: list[str] = []
    dates: list[Date] = []
    categories: list[Category] = []
    texts: list[Text] = []
    images: list[Images] = []
    counts: dict[str, sparse.csr_matrix] = {}
    known_numbers = table.numbers
    for name in (str(name) for name in table.frame.columns if name not in without):
        column = table.frame[name]
        if name in known_numbers:
            if _counts_rows(column):
                warnings.warn(f"column {name!r} left out: it only counts the rows", UserWarning, stacklevel=2)
            else:
                numbers.append(name)
        elif name in image or (name not in text and _is_image(column)):
            images.append(_learn_images(table, name))
        elif name not in text and _is_date(column):
            dates.append(_learn_days(name, column))
        elif name in text or _is_text(column):
            part, counts[name] = _learn_words(table.path, name, column)
            texts.append(part)
        elif _is_name(column):
            hint = f"its values differ from row to row; use its words with --text {quote(name)}"
            if column.head(5000).str.fullmatch(THOUSANDS).mean() > 0.5:
                hint = "write its numbers without marks between the thousands to use them"
            warnings.warn(f"column {name!r} left out: {hint}", UserWarning, stacklevel=2)
        else:
            categories.append(Category.learn(name, column, MOST_LEVELS))
    layout = Layout(tuple(numbers), (), (), tuple(dates), tuple(categories), tuple(texts), tuple(images))
    if not layout.columns:
        raise ProblemError(f"{table.path} has no column to learn from beside the label")
    return _with_scale(layout, table.frame) if layout.is_sparse and numbers else layout, counts


def _with_scale(layout: Layout, frame: pd.DataFrame) -> Layout:
    """Numbers beside a sparse matrix are centred here: there nothing can be centred later without filling it."""
    values = frame[list(layout.numbers)].to_numpy(dtype=np.float64)
    spread = values.std(axis=0)
    return replace(layout, centre=tuple(values.mean(axis=0)), scale=tuple(np.where(spread > 0, spread, 1.0)))


# --- what a column is -------------------------------------------------------------------------------------------------


def _counts_rows(column: "pd.Series[Any]") -> bool:
    values = column.to_numpy()
    return len(values) >= 10 and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def _is_image(column: "pd.Series[Any]") -> bool:
    endings = column.str.strip().str.lower().str.endswith(EXTENSIONS)
    return bool(endings.mean() >= 0.95)


def _is_date(column: "pd.Series[Any]") -> bool:
    if not column.head(5000).str.fullmatch(DATE).all():
        return False
    days = _days(column)
    return bool(np.isfinite(days).all() and len(set(days)) > 1)


def _is_text(column: "pd.Series[Any]") -> bool:
    sample = column.head(5000)
    words = sample.str.split().str.len().mean()
    return bool(words >= WORDS_OF_TEXT and sample.nunique() > min(20, len(sample) / 2))


def _is_name(column: "pd.Series[Any]") -> bool:
    """Whether nearly every row has a value of its own, from which nothing can be learned."""
    return bool(column.nunique() > max(20, len(column) / 2))


# --- learning ---------------------------------------------------------------------------------------------------------


def _learn_days(name: str, column: "pd.Series[Any]") -> Date:
    days = _days(column)
    return Date(name, float(days.mean()), float(days.std()))


def _learn_words(path: Path, name: str, column: "pd.Series[Any]") -> tuple[Text, sparse.csr_matrix]:
    """The vocabulary with its weights, and how often each row has each word."""
    counter = CountVectorizer(max_features=MOST_WORDS, min_df=2 if len(column) >= 100 else 1, dtype=np.float64)
    try:
        counts = counter.fit_transform(column.astype(object))
    except ValueError:  # no word at all, or none that occurs often enough
        raise ProblemError(f"{path}: column {name!r} holds no words: leave it out with --drop {quote(name)}") from None
    idf = TfidfTransformer().fit(counts).idf_
    counts.sort_indices()  # as in the counts of any other table
    return Text(name, tuple(map(str, counter.get_feature_names_out())), tuple(map(float, idf))), counts


def _learn_images(table: Table, name: str) -> Images:
    return Images(name, shape_of([_image(table, name, row) for row in range(min(20, len(table.frame)))]))


# --- applying ---------------------------------------------------------------------------------------------------------


def _days(column: "pd.Series[Any]") -> NDArray[np.float64]:
    """Days since 1970; NaN where a cell is no date."""
    dates = pd.to_datetime(column.where(column.str.fullmatch(DATE)), format="ISO8601", errors="coerce", utc=True)
    return np.asarray((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), dtype=np.float64)


def _standard_days(table: Table, part: Date) -> NDArray[np.float32]:
    days = _days(table.frame[part.name])
    bad = np.flatnonzero(np.isnan(days))
    if len(bad):
        cell = str(table.frame[part.name].iloc[bad[0]])[:40]
        where = f"{table.place(int(bad[0]))}, column {part.name!r}"
        raise ProblemError(f"{where}: {cell!r} is not a date such as 2024-05-31; correct it, or remove the row")
    return ((days - part.centre) / part.scale).astype(np.float32)[:, None]


def _counted(table: Table, part: Text) -> sparse.csr_matrix:
    return CountVectorizer(vocabulary=list(part.vocabulary)).transform(table.frame[part.name].astype(object))


def _weighed(part: Text, counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """The counts of words by TF-IDF; the rows have length 1."""
    weights = TfidfTransformer(sublinear_tf=True)
    weights.idf_ = np.asarray(part.idf, dtype=np.float32)
    return sparse.csr_matrix(weights.transform(counts.astype(np.float32)))


def _pixels(table: Table, part: Images) -> NDArray[np.float32]:
    values = np.empty((len(table.frame), part.shape.width), dtype=np.float32)
    for row in range(len(values)):
        where, path = _image(table, part.name, row)
        values[row] = pixels(where, path, part.shape)
    return values


def image_path(table: Table, name: str, row: int) -> Path:
    """Where the image of a row is."""
    return table.path.parent / str(table.frame[name].iloc[row]).strip()


def _image(table: Table, name: str, row: int) -> tuple[str, Path]:
    """The place of an image's name in the table, and the image."""
    where = f"{table.place(row)}, column {name!r}"
    cell = str(table.frame[name].iloc[row]).strip()
    if not cell:
        raise ProblemError(f"{where} names no image: remove the row, or leave the column out with --drop {quote(name)}")
    if "://" in cell:
        raise ProblemError(f"{where}: {cell!r} is an address; images are read from files only")
    return where, image_path(table, name, row)


def _strings(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
