"""The data sets of the studies: looked up, downloaded, verified, parsed once and kept.

Files are looked for in `BOME_DATA` (read only), then in the cache (`BOME_CACHE`), and otherwise downloaded; see
`bome.data.files`. What is parsed of them is kept in the cache; see `bome.data.parsed`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._checks import choose
from bome.data import formats
from bome.data.files import DataFile, DataSet, advice, downloadable, fetch, find, lies_in_data_folder
from bome.data.parsed import is_kept, keep

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Images(NamedTuple):
    """Images and their classes.

    Attributes:
        train: bytes of shape (n, height, width), or (n, height, width, 3) for colours.
        train_labels: the class of each, int64.
        test: as `train`.
        test_labels: as `train_labels`.
        classes: the names of the classes.
    """

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]


class Documents(NamedTuple):
    """Texts and their classes; see `Images`."""

    train: list[str]
    train_labels: Tensor
    test: list[str]
    test_labels: Tensor
    classes: tuple[str, ...]


class Counts(NamedTuple):
    """Counts of words, float32, with rows of Euclidean length 1; see `Images`."""

    train: "csr_array"
    train_labels: Tensor
    test: "csr_array"
    test_labels: Tensor
    classes: tuple[str, ...]


class Available(NamedTuple):
    """A data set and where it is.

    Attributes:
        name: what it is called.
        about: a line on what it is.
        size: bytes to download.
        place: "BOME_DATA", "cache" or "not here".
        remedy: what happens on first use, and what to do without a connection; empty if it is ready.
    """

    name: str
    about: str
    size: int
    place: str
    remedy: str


# --- what is published ------------------------------------------------------------------------------------------------

ImagesName = Literal["mnist", "fashion-mnist", "cifar-100"]


def _idx_files(base: str, files: dict[str, tuple[str, int]]) -> tuple[tuple[DataFile, ...], ...]:
    return tuple((DataFile(name, digest, size, base + name),) for name, (digest, size) in files.items())


MNIST = DataSet(
    "mnist",
    "70,000 handwritten digits, 28 x 28 grey",
    _idx_files(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            formats.TRAIN_IMAGES: ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422),
            formats.TRAIN_LABELS: ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881),
            formats.TEST_IMAGES: ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877),
            formats.TEST_LABELS: ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542),
        },
    ),
)
FASHION = DataSet(
    "fashion-mnist",
    "70,000 pictures of clothes, 28 x 28 grey",
    _idx_files(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            formats.TRAIN_IMAGES: ("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26421880),
            formats.TRAIN_LABELS: ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29515),
            formats.TEST_IMAGES: ("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102),
            formats.TEST_LABELS: ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5148),
        },
    ),
)
CIFAR = DataSet(
    "cifar-100",
    "60,000 pictures of 100 kinds of things, 32 x 32 in colour",
    (
        (
            DataFile(
                "cifar-100-python.tar.gz",
                "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                169001437,
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            ),
            DataFile(
                "cifar-100-python.tar.xz",
                "6723bfaa4d1102b158be59c29ceb85925fd0b04e02eae532bb58679f7b3f7b31",
                137586392,
            ),
        ),
    ),
)
NEWS = DataSet(
    "20news",
    "18,846 posts to 20 newsgroups",
    (
        (
            DataFile(
                formats.NEWS_ARCHIVE,
                "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
                14464277,
                "https://ndownloader.figshare.com/files/5975967",
            ),
            DataFile(
                formats.NEWS_PICKLE,
                "18517df7a29429a523a79c7b29f6bcbe59b13b76cab62fdec905c7303e33a7e3",
                15261784,
            ),
        ),
    ),
)

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

_PARSERS: dict[str, tuple[DataSet, Callable[[dict[str, bytes]], dict[str, Any]]]] = {
    "mnist": (MNIST, lambda files: formats.idx_images(files, DIGITS)),
    "fashion-mnist": (FASHION, lambda files: formats.idx_images(files, CLOTHES)),
    "cifar-100": (CIFAR, formats.cifar_images),
}


# --- what is given ----------------------------------------------------------------------------------------------------


def images(name: ImagesName) -> Images:
    """MNIST, FashionMNIST or CIFAR-100 (with its 100 fine classes).

    Raises:
        StorageError: it is not at hand and cannot be downloaded, or a file is damaged.
    """
    dataset, parse = choose("data set of images", name, _PARSERS)
    return Images(**keep(name, lambda: parse(fetch(dataset))))


def newsgroups() -> Documents:
    """20 Newsgroups, split by date, with headers, footers and quotes.

    The order is that of `sklearn.datasets.fetch_20newsgroups(subset=..., random_state=12)`, which is also the order of
    the rows of `newsgroup_counts`.

    Raises:
        StorageError: it is not at hand and cannot be downloaded, or a file is damaged.
    """
    return Documents(**keep("20news", lambda: formats.news_documents(fetch(NEWS))))


def newsgroup_counts() -> Counts:
    """20 Newsgroups as counts of the 130,107 words of its training part, with rows of length 1.

    The same as `sklearn.datasets.fetch_20newsgroups_vectorized`, in float32.

    Raises:
        StorageError: it is not at hand and cannot be downloaded, or a file is damaged.
    """
    from scipy.sparse import csr_array

    state = keep("20news-counts", _count_words)
    for split in ("train", "test"):
        data, indices, indptr = (state.pop(f"{split}_{key}").numpy() for key in ("data", "indices", "indptr"))
        state[split] = csr_array((data, indices, indptr), shape=(len(indptr) - 1, state["words"]))
    del state["words"]
    return Counts(**state)


def _count_words() -> dict[str, Any]:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    documents = newsgroups()
    vectorizer = CountVectorizer(dtype=np.int16)
    counts = {"train": vectorizer.fit_transform(documents.train), "test": vectorizer.transform(documents.test)}
    state = {key: value for key, value in documents._asdict().items() if key not in counts}
    for split, rows in counts.items():
        lengths_1 = normalize(rows.astype(np.float64)).astype(np.float32)
        state |= {f"{split}_{key}": torch.from_numpy(getattr(lengths_1, key)) for key in ("data", "indices", "indptr")}
    return state | {"words": counts["train"].shape[1]}


def available() -> list[Available]:
    """The data sets and where they are; nothing is verified, parsed or downloaded."""
    return [_available(dataset) for dataset in (MNIST, FASHION, NEWS, CIFAR)]


def _available(dataset: DataSet) -> Available:
    size = sum(downloadable(part).size for part in dataset.parts)
    files = [find(dataset, part) for part in dataset.parts]
    if is_kept(dataset.name):
        place, remedy = "cache", ""
    elif all(files):
        inside = all(file and lies_in_data_folder(file[0]) for file in files)
        place, remedy = "BOME_DATA" if inside else "cache", "parsed on first use"
    else:
        place, remedy = "not here", f"downloaded on first use; without a connection: {advice(dataset)}"
    return Available(dataset.name, dataset.about, size, place, remedy)
