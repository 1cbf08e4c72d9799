"""Published formats: each is read, and whatever is malformed or something else is refused in one line."""

import gzip
import pickle
import zlib
from typing import Any

import numpy as np
import pytest

from bome.data import formats, sets
from bome.errors import StorageError
from tests.support.published import LABELS, PICTURES, cifar_files, idx, idx_files, tar


def test_the_four_files_of_mnist_become_pictures_and_labels() -> None:
    content = formats.idx_images(idx_files(), sets.DIGITS)
    np.testing.assert_array_equal(content["train"].numpy(), PICTURES["train"])
    assert content["test_labels"].tolist() == LABELS["test"].tolist()
    assert content["classes"] == sets.DIGITS


def test_the_archive_of_cifar_becomes_pictures_and_labels() -> None:
    content = formats.cifar_images(cifar_files())
    assert content["test"].shape == (2, 32, 32, 3)
    assert content["train_labels"].tolist() == [1, 0]
    assert content["classes"] == ("apple", "baby")


def test_posts_are_in_the_order_of_scikit_learn_with_the_labels_of_their_groups() -> None:
    files = {f"20news-bydate-{split}/{group}/{n}": f"{group} {n}".encode() for split in ("train", "test")
             for group in ("alt.atheism", "sci.space") for n in range(4)}  # fmt: skip
    content = formats.news_documents({formats.NEWS_ARCHIVE: tar(files)})
    assert content["classes"] == ("alt.atheism", "sci.space")
    assert sorted(content["train"]) == sorted(text.decode() for name, text in files.items() if "train" in name)
    assert [content["classes"][label] for label in content["train_labels"]] == [
        text.split()[0] for text in content["train"]
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (formats.TRAIN_IMAGES, gzip.compress(b"\0\0\x08\x03"), "is not an array of bytes"),
        (formats.TRAIN_IMAGES, gzip.compress(b""), "is not an array of bytes"),
        (formats.TRAIN_IMAGES, idx(LABELS["train"]), "is not an array of bytes with 3 dimensions"),
        (formats.TRAIN_IMAGES, gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "it should have"),
        (formats.TRAIN_IMAGES, gzip.compress(gzip.decompress(idx(PICTURES["train"]))[:-1]), "it should have"),
        (formats.TRAIN_IMAGES, gzip.compress(gzip.decompress(idx(PICTURES["train"])) + b"x"), "it should have"),
        (formats.TRAIN_IMAGES, idx(PICTURES["test"]), "do not fit together"),
        (formats.TEST_IMAGES, idx(PICTURES["test"].reshape(3, 5, 4)), "do not fit together"),
        (formats.TEST_LABELS, idx(np.array([9, 0, 10])), "labels must be from 0 to 9"),
        (formats.TEST_LABELS, b"not compressed", "is damaged"),
    ],
    ids=range(10),  # compressed files hold the time at which they were made
)
def test_a_malformed_idx_file_is_refused(name: str, content: bytes, reason: str) -> None:
    """Such a file would have to pass the check of its digest first."""
    with pytest.raises(StorageError, match=reason):
        formats.idx_images({**idx_files(), name: content}, sets.DIGITS)


def test_images_without_any_sample_are_refused() -> None:
    empty = {formats.TEST_IMAGES: idx(np.zeros((0, 4, 5))), formats.TEST_LABELS: idx(np.zeros(0))}
    with pytest.raises(StorageError, match="a part of it is empty"):
        formats.idx_images(idx_files() | empty, sets.DIGITS)


@pytest.mark.parametrize(
    "changed",
    [
        {"fine_labels": [0]},
        {"fine_labels": [0, 2]},
        {"fine_labels": "01"},
        {"fine_labels": []},
        {"data": [1, 2]},
        {"data": np.zeros((2, 3071), np.uint8)},
        {"data": np.zeros((2, 3072), np.float32)},
    ],
)
def test_something_else_than_cifar_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(StorageError, match=r"^c\.tar\.gz"):
        formats.cifar_images(cifar_files(**changed))


def test_an_archive_of_cifar_without_its_members_is_refused() -> None:
    with pytest.raises(StorageError, match="something else than CIFAR-100"):
        formats.cifar_images({"c.tar.gz": tar({"readme": b""})})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"train": {"data": ["a"], "target": np.array([0, 1]), "target_names": ["a", "b"]}}, "something else"),
        ([], "something else"),
        ({"train": {}, "test": {}}, "something else"),
    ],
)
def test_something_else_than_newsgroups_is_refused(content: object, reason: str) -> None:
    with pytest.raises(StorageError, match=reason):
        formats.news_documents({formats.NEWS_PICKLE: zlib.compress(pickle.dumps(content, 4))})


def test_newsgroups_that_do_not_fit_their_labels_are_refused() -> None:
    part: dict[str, Any] = {"data": ["a", "b"], "target": np.array([0, 1]), "target_names": ["a", "b"]}
    for changed in ({"data": ["a"]}, {"data": [1, 2]}, {"target": np.array([0, 2])}, {"target": np.array([-1, 0])}):
        content = {"train": part | changed, "test": part}
        with pytest.raises(StorageError, match=f"^{formats.NEWS_PICKLE}"):
            formats.news_documents({formats.NEWS_PICKLE: zlib.compress(pickle.dumps(content, 4))})


def test_an_archive_without_posts_is_refused() -> None:
    with pytest.raises(StorageError, match="a part of it is empty"):
        formats.news_documents({formats.NEWS_ARCHIVE: tar({"20news-bydate-train/alt.atheism/readme": b""})})
