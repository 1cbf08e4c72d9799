"""The data of the cleaning study: features, trusted rows, and labels made wrong in four ways.

A share r of the doubtful labels is noisy:

uniform    each label is drawn anew among all classes with probability r, so that it may stay right by chance
pairs      each label becomes that of the next class with probability r
per-class  as uniform, with another probability for each class, r on average
instance   the label of row i becomes wrong with a probability near r, and to which class depends on its features
           (Xia et al., Part-dependent label noise, 2020, algorithm 2)
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from torch.nn.functional import avg_pool2d

from bome._typing import Array, Matrix
from bome.data.digits import digits
from bome.data.sets import Images, images, newsgroups
from bome.errors import ProblemError
from bome.estimators.rows import Rows, stack
from bome.tables.encoder import Encoder

Kind = Literal["uniform", "pairs", "per-class", "instance"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SPREAD = 0.9
"""Rates of per-class noise lie within r ± this part of the most that is possible."""
DEVIATION = 0.1
"""Of the rates of instance noise between rows."""
SHARPNESS = 5.0
"""How much the features decide which wrong class instance noise leads to; rows have length 1 there."""


@dataclass(frozen=True)
class Cell:
    """One setting of the benchmark.

    Attributes:
        data: a name in `SOURCES`.
        features: how many; pixels of images, words or topics of texts.
        rows: doubtful rows.
        kind: of the noise.
        rate: the share r of noisy labels.
        trusted: trusted rows.
    """

    data: str
    features: int
    rows: int
    kind: Kind
    rate: float
    trusted: int

    @property
    def key(self) -> str:
        """A name for files, the same for equal cells."""
        return f"{self.data}-{self.features}-{self.rows}-{self.kind}-{round(100 * self.rate)}-{self.trusted}"

    @property
    def title(self) -> str:
        """The cell without its data set, for people."""
        return f"{self.kind} {round(100 * self.rate)} %, {self.trusted} trusted"


@dataclass(frozen=True)
class Source:
    """A data set: rows to draw from, and the rows of its test part."""

    x: Matrix
    labels: Array
    test_x: Matrix
    test_labels: Array
    classes: int


@dataclass(frozen=True)
class Drawn:
    """A cell with a seed: what methods see, and what they are judged by.

    Attributes:
        rows: doubtful and trusted rows; all that a method may fit.
        true: the right labels of the doubtful rows.
        test_x: features of the test rows.
        test_labels: their labels.
    """

    rows: Rows
    true: Array
    test_x: Matrix
    test_labels: Array

    @property
    def wrong(self) -> Array:
        """Which labels of the doubtful rows are wrong."""
        return np.asarray(self.rows.labels != self.true)


# --- data sets --------------------------------------------------------------------------------------------------------


def _pixels(pixels_of: Images, features: int) -> Source:
    """Grey images as rows of pixels, made smaller by averages over squares."""
    side = math.isqrt(features)
    width = int(pixels_of.train.shape[1])
    if side * side != features or width % max(side, 1):
        raise ProblemError(f"{features} features do not make images of {width} x {width} pixels smaller evenly")

    def rows(pixels: torch.Tensor) -> Array:
        small = avg_pool2d(pixels.unsqueeze(1).float() / 255, width // side)
        return np.asarray(small.reshape(len(pixels), -1).numpy())

    train, test = rows(pixels_of.train), rows(pixels_of.test)
    return Source(train, pixels_of.train_labels.numpy(), test, pixels_of.test_labels.numpy(), len(pixels_of.classes))


def _shuffled(both: Images) -> Images:
    """Training and test part mixed anew: scikit-learn has its digits by writer, of whom those of the end differ."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(both.train) + len(both.test)))
    pixels, labels = torch.cat([both.train, both.test]), torch.cat([both.train_labels, both.test_labels])
    first, last = order[: len(both.train)], order[len(both.train) :]
    return Images(pixels[first], labels[first], pixels[last], labels[last], both.classes)


def _words(features: int) -> Source:
    """The most frequent words of the newsgroups by TF-IDF, sparse."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    news = newsgroups()
    vectorizer = TfidfVectorizer(max_features=features, sublinear_tf=True, stop_words="english", dtype=np.float32)
    x, test_x = vectorizer.fit_transform(news.train), vectorizer.transform(news.test)
    return Source(x.tocsr(), news.train_labels.numpy(), test_x.tocsr(), news.test_labels.numpy(), len(news.classes))


def _topics(features: int) -> Source:
    """The newsgroups by latent semantic analysis: the leading singular directions of 10,000 words, dense."""
    from sklearn.decomposition import TruncatedSVD

    words = _words(10_000)
    reduced = TruncatedSVD(features, random_state=0).fit(words.x)
    x, test_x = (np.asarray(reduced.transform(each), dtype=np.float32) for each in (words.x, words.test_x))
    return Source(x, words.labels, test_x, words.test_labels, words.classes)


SOURCES: dict[str, Callable[[int], Source]] = {
    "digits": lambda features: _pixels(_shuffled(digits()), features),
    "mnist": lambda features: _pixels(images("mnist"), features),
    "fashion": lambda features: _pixels(images("fashion-mnist"), features),
    "20news": _words,
    "20news-topics": _topics,
}
"""Each gives its rows with so many features."""


@lru_cache(maxsize=1)
def source(data: str, features: int) -> Source:
    """A data set, kept until another one is asked for."""
    return SOURCES[data](features)


# --- noise ------------------------------------------------------------------------------------------------------------


def noisy(x: Matrix, labels: Array, classes: int, kind: Kind, rate: float, random: np.random.Generator) -> Array:
    """The labels with a share of them made wrong; see the module."""
    return _NOISES[kind](x, labels, classes, rate, random)


def _uniform(x: Matrix, labels: Array, classes: int, rate: float, random: np.random.Generator) -> Array:
    drawn = random.integers(0, classes, len(labels))
    return np.where(random.random(len(labels)) < rate, drawn, labels)


def _pairs(x: Matrix, labels: Array, classes: int, rate: float, random: np.random.Generator) -> Array:
    return np.where(random.random(len(labels)) < rate, (labels + 1) % classes, labels)


def _per_class(x: Matrix, labels: Array, classes: int, rate: float, random: np.random.Generator) -> Array:
    rates = rate + SPREAD * min(rate, 1 - rate) * random.permutation(np.linspace(-1, 1, classes))
    drawn = random.integers(0, classes, len(labels))
    return np.where(random.random(len(labels)) < rates[labels], drawn, labels)


def _instance(x: Matrix, labels: Array, classes: int, rate: float, random: np.random.Generator) -> Array:
    from sklearn.preprocessing import normalize

    rates = np.clip(random.normal(rate, DEVIATION, len(labels)), 0, 1)
    unit = normalize(x)
    scores = np.empty((len(labels), classes))
    for own in range(classes):  # each true class has directions of its own
        directions = random.standard_normal((x.shape[1], classes))
        members = labels == own
        scores[members] = SHARPNESS * np.asarray(unit[members] @ directions)
    scores[np.arange(len(labels)), labels] = -np.inf
    drawn = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)  # a draw from the softmax of the scores
    return np.where(random.random(len(labels)) < rates, drawn, labels)


_NOISES = {"uniform": _uniform, "pairs": _pairs, "per-class": _per_class, "instance": _instance}


# --- a cell -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def draw(cell: Cell, seed: int) -> Drawn:
    """Draw the rows of a cell and make labels wrong; the features are scaled as `HyperCleaner` scales them.

    Raises:
        ProblemError: the data set has too few rows.
    """
    data = source(cell.data, cell.features)
    if cell.rows + cell.trusted > len(data.labels):
        raise ProblemError(
            f"{cell.data} has {len(data.labels):,} rows, fewer than the {cell.rows + cell.trusted:,} of {cell.key}"
        )
    random = np.random.default_rng([seed, zlib.crc32(cell.key.encode())])
    order = random.permutation(len(data.labels))
    trusted = _spread(data.labels, order, cell.trusted, data.classes)
    doubtful = order[~np.isin(order, trusted)][: cell.rows]
    x, true = data.x[doubtful], data.labels[doubtful]
    given = noisy(x, true, data.classes, cell.kind, cell.rate, random)
    encoder = Encoder().fit(stack(x, data.x[trusted]))
    rows = Rows.of(encoder.transform(x), given, encoder.transform(data.x[trusted]), data.labels[trusted], data.classes)
    return Drawn(rows, true, encoder.transform(data.test_x), data.test_labels)


def _spread(labels: Array, order: Array, count: int, classes: int) -> Array:
    """The first rows of an order such that every class has one, then the others in turn."""
    if count < classes:
        raise ProblemError(f"{count} trusted rows are too few for {classes} classes: one of each is needed")
    first = np.array([order[labels[order] == own][0] for own in range(classes)])
    rest = order[~np.isin(order, first)]
    return np.concatenate([first, rest[: count - classes]])
