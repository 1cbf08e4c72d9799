"""The data sets: small ones made here against independent readers, and the real ones where `BOME_DATA` names them."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import (
    fetch_20newsgroups,
    fetch_20newsgroups_vectorized,
    load_files,
)

from bome.cli.main import execute
from bome.data import formats, sets
from bome.data.files import DataFile, DataSet
from bome.data.pickles import read_pickle
from bome.errors import ProblemError, StorageError
from tests.support.published import LABELS, PICTURES, cifar_files, idx_files, tar

GROUPS = ("alt.atheism", "comp.graphics", "sci.space")
REAL = os.environ.get("BOME_DATA", "")
needs_data = pytest.mark.skipif(not REAL, reason="BOME_DATA is not set: the real data sets are not at hand")
random = np.random.default_rng(0)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty BOME_DATA, beside an empty cache, without a connection."""
    monkeypatch.setenv("BOME_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BOME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("bome.data.files._download", _no_connection)
    return tmp_path / "data"


def _no_connection(dataset: DataSet, form: DataFile) -> Path:
    raise StorageError(f"{form.url}: no connection")


def put(data: Path, name: str, parts: dict[str, bytes]) -> DataSet:
    """The files of a data set of that name in BOME_DATA."""
    (data / name).mkdir(parents=True, exist_ok=True)
    for file, content in parts.items():
        (data / name / file).write_bytes(content)
    forms = [DataFile(file, hashlib.sha256(raw).hexdigest(), len(raw), "http://x") for file, raw in parts.items()]
    return DataSet(name, "a small one", tuple((form,) for form in forms))


# --- images -----------------------------------------------------------------------------------------------------------


def small_mnist(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = put(data, "mnist", idx_files())
    monkeypatch.setitem(sets._PARSERS, "mnist", (dataset, sets._PARSERS["mnist"][1]))


def test_images_of_the_idx_format_are_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_mnist(data, monkeypatch)
    for _ in range(2):  # parsed, and from the cache
        found = sets.images("mnist")
        np.testing.assert_array_equal(found.train.numpy(), PICTURES["train"])
        np.testing.assert_array_equal(found.test.numpy(), PICTURES["test"])
        assert found.train_labels.tolist() == LABELS["train"].tolist()
        assert found.test_labels.tolist() == LABELS["test"].tolist()
        assert (found.train.dtype, found.train_labels.dtype) == (torch.uint8, torch.int64)
        assert found.classes == tuple("0123456789")


def test_once_parsed_the_files_are_not_needed_and_nothing_is_written_beside_them(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_mnist(data, monkeypatch)
    before = sorted(data.rglob("*"))
    sets.images("mnist")
    assert sorted(data.rglob("*")) == before
    shutil.rmtree(data)
    assert len(sets.images("mnist").train) == 7


def test_pictures_of_cifar_have_the_colour_last(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row holds red, then green, then blue: the colour c of the pixel (i, j) is entry 1024 c + 32 i + j."""
    dataset = put(data, "cifar-100", cifar_files())
    monkeypatch.setitem(sets._PARSERS, "cifar-100", (dataset, sets._PARSERS["cifar-100"][1]))
    found = sets.images("cifar-100")
    assert found.train.shape == (2, 32, 32, 3)
    assert found.train[1, 5, 7].tolist() == [(3072 + 1024 * c + 32 * 5 + 7) % 256 for c in range(3)]
    assert found.train_labels.tolist() == [1, 0]
    assert found.classes == ("apple", "baby")


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ProblemError, match="unknown data set of images 'imagenet'; known: mnist, fashion-mnist, cifar-100"
    ):
        sets.images("imagenet")  # type: ignore[arg-type]


# --- texts ------------------------------------------------------------------------------------------------------------


def posts() -> dict[str, bytes]:
    """Some posts in the layout of the published archive; é is one byte of latin-1."""
    words = ["space", "pixel", "belief", "the", "orbit", "x1", "caf\xe9", "a", "Graphics"]
    made = {}
    for split, n in (("train", 23), ("test", 11)):
        for i in range(n):
            text = " ".join(random.choice(words, size=random.integers(1, 20)))
            made[f"20news-bydate-{split}/{GROUPS[i % 3]}/{1000 - 37 * i}"] = text.encode("latin1")
    return made


def as_scikit_learn_keeps_it(files: dict[str, bytes], home: Path) -> bytes:
    """Unpacked to disk, read by scikit-learn and written as it does."""
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    parts = {split: load_files(home / f"20news-bydate-{split}", encoding="latin1") for split in ("train", "test")}
    return zlib.compress(pickle.dumps(parts, 4))


def small_news(data: Path, tmp_path: Path) -> dict[str, tuple[DataSet, Path]]:
    """Both forms of the same posts, and the home of scikit-learn's own copy."""
    files, home = posts(), tmp_path / "home"
    content = as_scikit_learn_keeps_it(files, home)
    (home / formats.NEWS_PICKLE).write_bytes(content)
    return {
        "archive": (put(data, "archive", {formats.NEWS_ARCHIVE: tar(files)}), home),
        "pickle": (put(data, "pickle", {formats.NEWS_PICKLE: content}), home),
    }


@pytest.mark.parametrize("form", ["archive", "pickle"])
def test_newsgroups_are_those_of_scikit_learn(
    form: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, home = small_news(data, tmp_path)[form]
    monkeypatch.setattr(sets, "NEWS", dataset)
    for _ in range(2):  # parsed, and from the cache
        _compare_with_scikit_learn(home)


def _compare_with_scikit_learn(home: Path) -> None:
    documents, counts = sets.newsgroups(), sets.newsgroup_counts()
    for split in ("train", "test"):
        texts = fetch_20newsgroups(subset=split, data_home=home, random_state=12, download_if_missing=False)
        known = fetch_20newsgroups_vectorized(subset=split, data_home=home, download_if_missing=False)
        assert getattr(documents, split) == texts.data
        found = getattr(counts, split)
        assert (found.dtype, found.shape) == (np.float32, known.data.shape)
        difference = abs(found - known.data.astype(np.float32))
        assert difference.max() == 0
        for given in (documents, counts):
            np.testing.assert_array_equal(getattr(given, f"{split}_labels").numpy(), known.target)
            assert given.classes == tuple(known.target_names)


# --- what is there ----------------------------------------------------------------------------------------------------


def test_available_says_where_each_set_is_and_what_to_do(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in sets.available():
        assert each.place == "not here"
        assert str(data / each.name) in each.remedy
    small_mnist(data, monkeypatch)
    monkeypatch.setattr(sets, "MNIST", sets._PARSERS["mnist"][0])
    assert sets.available()[0][3:] == ("BOME_DATA", "parsed on first use")
    shutil.copytree(data, data.parent / "cache")
    shutil.rmtree(data)
    assert sets.available()[0][3:] == ("cache", "parsed on first use")
    sets.images("mnist")
    assert sets.available()[0][3:] == ("cache", "")


def test_a_file_that_is_missing_alone_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_mnist(data, monkeypatch)
    (data / "mnist" / formats.TEST_LABELS).unlink()
    monkeypatch.setattr(sets, "MNIST", sets._PARSERS["mnist"][0])
    entry = sets.available()[0]
    assert entry.place == "not here"
    assert f"put {formats.TEST_LABELS} into {data / 'mnist'}" in entry.remedy


def test_ls_shows_the_data_sets(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ls", "data"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("mnist", "fashion-mnist", "20news", "cifar-100", "169 MB", "not here"))
    assert "cifar-100-python.tar.gz" in printed
    assert not data.exists()


def test_importing_the_data_sets_loads_no_large_library_and_opens_no_connection() -> None:
    script = (
        "import sys, bome.data.sets as s; s.available(); "
        "sys.exit(' '.join({'sklearn', 'scipy', 'requests'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_each_published_file_has_a_digest_and_one_form_that_can_be_downloaded() -> None:
    for dataset in (sets.MNIST, sets.FASHION, sets.NEWS, sets.CIFAR):
        for part in dataset.parts:
            assert [bool(form.url) for form in part].count(True) == 1
            assert all(len(bytes.fromhex(form.sha256)) == 32 for form in part)


# --- the real ones ----------------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOME_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("bome.data.files._download", _no_connection)
    return Path(REAL)


@needs_data
@pytest.mark.parametrize(
    ("name", "mean", "first"), [("mnist", 33.3184, [5, 0, 4, 1, 9]), ("fashion-mnist", 72.9404, [9, 0, 0, 3, 0])]
)
def test_the_real_grey_images(name: sets.ImagesName, mean: float, first: list[int], real: Path) -> None:
    """The well-known mean pixel and first labels."""
    found = sets.images(name)
    assert (found.train.shape, found.test.shape) == ((60000, 28, 28), (10000, 28, 28))
    assert found.train.double().mean().item() == pytest.approx(mean, abs=1e-3)
    assert found.train_labels[:5].tolist() == first
    if name == "mnist":
        known = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert found.train_labels.bincount().tolist() == known
    else:
        assert found.test_labels.bincount().tolist() == [1000] * 10


@pytest.mark.slow
@needs_data
def test_the_real_cifar_100(real: Path) -> None:
    """The well-known first labels and means of the colours; 500 and 100 pictures of each of the kinds from a to z."""
    found = sets.images("cifar-100")
    assert (found.train.shape, found.test.shape) == ((50000, 32, 32, 3), (10000, 32, 32, 3))
    means = (found.train.double().mean((0, 1, 2)) / 255).tolist()
    assert means == pytest.approx([0.5071, 0.4865, 0.4409], abs=1e-4)
    assert found.train_labels[:5].tolist() == [19, 29, 0, 11, 1]
    assert found.test_labels[:5].tolist() == [49, 33, 72, 51, 71]
    assert found.train_labels.bincount().tolist() == [500] * 100
    assert found.test_labels.bincount().tolist() == [100] * 100
    assert len(found.classes) == 100
    assert list(found.classes) == sorted(found.classes)


@pytest.mark.slow
@needs_data
def test_the_real_newsgroups_are_those_of_scikit_learn(real: Path, tmp_path: Path) -> None:
    shutil.copy(real / "20news" / formats.NEWS_PICKLE, tmp_path)
    _compare_with_scikit_learn(tmp_path)
    assert sets.newsgroup_counts().train.shape == (11314, 130107)


@pytest.mark.slow
@needs_data
def test_the_real_newsgroups_are_the_same_as_an_archive_of_texts(real: Path) -> None:
    """The archive is made of the other form; the names of its members are those that scikit-learn read."""
    raw = (real / "20news" / formats.NEWS_PICKLE).read_bytes()
    files = {}
    for split, part in read_pickle(zlib.decompress(raw), "file").items():
        for name, text in zip(part["filenames"].value, part["data"], strict=True):
            group, number = str(name).split("/")[-2:]
            files[f"20news-bydate-{split}/{group}/{number}"] = text.encode("latin1")
    assert len(files) == 18846
    made = formats.news_documents({formats.NEWS_ARCHIVE: tar(files)})
    known = formats.news_documents({formats.NEWS_PICKLE: raw})
    for key, value in known.items():
        assert torch.equal(made[key], value) if isinstance(value, torch.Tensor) else made[key] == value
