"""The formats in which data sets are published, parsed from verified bytes into what `bome.data.parsed` keeps."""

import math
import re
import struct
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bome.data.archives import gunzip, inflate, members
from bome.data.pickles import Array, read_pickle
from bome.errors import StorageError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
NEWS_ARCHIVE, NEWS_PICKLE = "20news-bydate.tar.gz", "20news-bydate_py3.pkz"

MEGABYTE = 1 << 20
_IDX_LIMIT, _CIFAR_LIMIT, _NEWS_LIMIT = 64 * MEGABYTE, 256 * MEGABYTE, 128 * MEGABYTE
_CIFAR_MEMBERS = {f"cifar-100-python/{part}": part for part in ("train", "test", "meta")}
_NEWS_MEMBER = re.compile(r"20news-bydate-(train|test)/[a-z.-]{1,40}/\d{1,12}")
_SHUFFLES = (0, 12)
"""Seeds of `sklearn.datasets.load_files` and of `sklearn.datasets.fetch_20newsgroups_vectorized`."""


def idx_images(files: dict[str, bytes], classes: tuple[str, ...]) -> dict[str, Any]:
    """The four files of MNIST and of the sets made after its example.

    Raises:
        StorageError: they are damaged, or do not belong together.
    """
    train, test = _idx(files, TRAIN_IMAGES, 3), _idx(files, TEST_IMAGES, 3)
    labels = {"train": _idx(files, TRAIN_LABELS, 1), "test": _idx(files, TEST_LABELS, 1)}
    return _checked_images({"train": train, "test": test}, labels, classes, "MNIST's files")


def _idx(files: dict[str, bytes], name: str, dims: int) -> Tensor:
    """An array of bytes: two zeros, the type 8, the number of dimensions, each of them in 4 bytes, the entries."""
    content = gunzip(files[name], _IDX_LIMIT, name)
    start = 4 + 4 * dims
    if content[:4] != bytes((0, 0, 8, dims)) or len(content) < start:
        raise StorageError(f"{name} is not an array of bytes with {dims} dimensions")
    shape = struct.unpack(f">{dims}I", content[4:start])
    if math.prod(shape) != len(content) - start:
        raise StorageError(f"{name} is damaged: it should have {shape} entries and has {len(content) - start}")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


def cifar_images(files: dict[str, bytes]) -> dict[str, Any]:
    """The archive of CIFAR-100 for Python, with the fine labels.

    Raises:
        StorageError: it is damaged, or holds something else.
    """
    ((name, content),) = files.items()
    raws = members(content, _CIFAR_MEMBERS.__contains__, _CIFAR_LIMIT, name)
    try:
        parts = {_CIFAR_MEMBERS[member]: read_pickle(raw, f"{name}: {member}") for member, raw in raws.items()}
        pictures = {split: _pictures(parts[split]["data"]) for split in ("train", "test")}
        labels = {split: torch.tensor(parts[split]["fine_labels"]) for split in ("train", "test")}
        classes = tuple(map(str, parts["meta"]["fine_label_names"]))
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise StorageError(f"{name} holds something else than CIFAR-100: {error!r}") from error
    return _checked_images(pictures, labels, classes, name)


def _pictures(rows: Array) -> Tensor:
    """Rows of 1024 red, 1024 green and 1024 blue values, as pictures with the colour last."""
    return torch.from_numpy(rows.value.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())


def _checked_images(
    pictures: dict[str, Tensor], labels: dict[str, Tensor], classes: tuple[str, ...], what: str
) -> dict[str, Any]:
    for split, values in labels.items():
        of = pictures[split]
        if of.dtype != torch.uint8 or len(of) != len(values) or of.shape[1:] != pictures["train"].shape[1:]:
            raise StorageError(f"{what} do not fit together: {tuple(of.shape)} and {tuple(values.shape)} for {split}")
    return {**pictures, **_labels(labels, classes, what)}


def _labels(labels: dict[str, Tensor], classes: tuple[str, ...], what: str) -> dict[str, Any]:
    for values in labels.values():
        if not len(values):
            raise StorageError(f"{what}: a part of it is empty")
        if values.dim() != 1 or values.min() < 0 or values.max() >= len(classes):
            raise StorageError(f"{what}: labels must be from 0 to {len(classes) - 1}")
    return {**{f"{split}_labels": values.long() for split, values in labels.items()}, "classes": classes}


def news_documents(files: dict[str, bytes]) -> dict[str, Any]:
    """20 Newsgroups by date, as archive of texts or as scikit-learn keeps it.

    Raises:
        StorageError: it is damaged, or holds something else.
    """
    ((name, content),) = files.items()
    texts, labels, classes = (_news_archive if name == NEWS_ARCHIVE else _news_pickle)(content, name)
    for split, values in labels.items():
        if len(texts[split]) != len(values):
            raise StorageError(f"{name}: {len(texts[split])} texts and {len(values)} labels for {split}")
        order = _shuffled(len(values), _SHUFFLES[1])
        texts[split], labels[split] = [texts[split][i] for i in order], values[order]
    return {**texts, **_labels(labels, classes, name)}


_News = tuple[dict[str, list[str]], dict[str, Tensor], tuple[str, ...]]


def _news_pickle(content: bytes, name: str) -> _News:
    try:
        parts = read_pickle(inflate(content, _NEWS_LIMIT, name), name)
        texts = {split: [_text(text) for text in parts[split]["data"]] for split in ("train", "test")}
        labels = {split: torch.tensor(parts[split]["target"].value) for split in texts}
        classes = tuple(map(str, parts["train"]["target_names"]))
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise StorageError(f"{name} holds something else than 20 Newsgroups: {error!r}") from error
    return texts, labels, classes


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _news_archive(content: bytes, name: str) -> _News:
    """As `sklearn.datasets.load_files(..., encoding="latin1")` reads the unpacked folders."""
    raws = members(content, lambda member: _NEWS_MEMBER.fullmatch(member) is not None, _NEWS_LIMIT, name)
    posts = [(PurePosixPath(member).parts, raw) for member, raw in sorted(raws.items())]
    classes = tuple(sorted({group for (_, group, _), _ in posts}))
    texts: dict[str, list[str]] = {}
    labels: dict[str, Tensor] = {}
    for split in ("train", "test"):
        own = [(group, raw) for (folder, group, _), raw in posts if folder == f"20news-bydate-{split}"]
        order = _shuffled(len(own), _SHUFFLES[0])
        texts[split] = [own[i][1].decode("latin1") for i in order]
        labels[split] = torch.tensor([classes.index(own[i][0]) for i in order])
    return texts, labels, classes


def _shuffled(n: int, seed: int) -> list[int]:
    """The order in which scikit-learn puts n things."""
    order = np.arange(n)
    np.random.RandomState(seed).shuffle(order)
    return [int(i) for i in order]
