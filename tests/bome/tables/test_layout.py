"""From columns to features, against scikit-learn's own transformers and by hand."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from bome.errors import ProblemError
from bome.tables import layout
from bome.tables.layout import Layout, choose
from bome.tables.values import Table

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def table(folder: Path = Path(), **named: Sequence[object]) -> Table:
    frame = pd.DataFrame({k: np.asarray(v, np.float32) if not isinstance(v[0], str) else v for k, v in named.items()})
    return Table(folder / "t.csv", frame, np.arange(len(frame)) + 2)


def texts(n: int) -> list[object]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 6)) for _ in range(n)]


def picture(path: Path, value: int, mode: str = "L") -> None:
    Image.new(mode, (10, 10), value if mode == "L" else (value, 0, 0)).save(path)


def test_each_kind_of_column_is_told_from_the_others(tmp_path: Path) -> None:
    for i in range(40):
        picture(tmp_path / f"{i}.png", i)
    given = table(
        tmp_path,
        number=[float(i % 5) for i in range(40)],
        city=["Rome" if i % 2 else "Oslo" for i in range(40)],
        review=texts(40),
        file=[f"{i}.png" for i in range(40)],
        y=["u"] * 40,
    )
    layout = choose(given, without={"y"})[0]
    assert layout.numbers == ("number",)
    assert [(part.name, part.levels) for part in layout.categories] == [("city", ("Oslo", "Rome"))]
    assert [part.name for part in layout.texts] == ["review"]
    assert [part.name for part in layout.images] == ["file"]


def test_dates_are_days_in_units_of_their_deviation() -> None:
    given = table(d=["2024-03-01", "2024-03-05 12:00", "2024-02-29T00:00:00Z", " 2024-03-03"], c=["u", "v"] * 2)
    layout = choose(given, without=())[0]
    days = np.array([1, 5.5, 0, 3])  # since the 29th of February
    np.testing.assert_allclose(layout.features(given)[:, 0], (days - days.mean()) / days.std(), rtol=1e-5)
    other = layout.features(table(d=["2024-03-02"], c=["u"]))
    np.testing.assert_allclose(other[:, 0], (2 - days.mean()) / days.std(), rtol=1e-5)
    for cell in ("", "soon", "2024-02-30"):
        with pytest.raises(ProblemError, match=rf"line 3, column 'd': '{cell}' is not a date such as 2024-05-31"):
            layout.features(table(d=["2024-03-02", cell], c=["u", "v"]))
    assert choose(given, text=["d"], without=())[0].dates == ()
    assert choose(table(d=["2024-03-01", "2024-03-01", "unknown"]), without=())[0].categories[0].name == "d"


def test_numbers_with_marked_thousands_are_left_out_with_advice() -> None:
    given = table(n=[f"{i},000.50" for i in range(1, 60)], a=[float(i % 3) for i in range(1, 60)])
    with pytest.warns(UserWarning, match="column 'n' left out: write its numbers without marks between the thousands"):
        assert choose(given, without=())[0].columns == ("a",)


def test_a_column_of_names_and_a_count_of_rows_are_left_out_and_said_so() -> None:
    given = table(
        name=[f"n{i}" for i in range(50)], row=[float(i) for i in range(50)], a=[float(i % 3) for i in range(50)]
    )
    with pytest.warns(UserWarning, match="left out") as told:
        assert choose(given, without=())[0].columns == ("a",)
    assert [str(w.message) for w in told] == [
        "column 'name' left out: its values differ from row to row; use its words with --text name",
        "column 'row' left out: it only counts the rows",
    ]


def test_features_of_text_are_those_of_scikit_learn() -> None:
    given = table(t=texts(120))
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(given.frame["t"])
    found = choose(given, without=())[0].features(given)
    assert sparse.issparse(found)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-6)


def test_categories_are_one_column_per_level_and_unknown_ones_are_none() -> None:
    layout = choose(table(c=["b", "a", "b", "a"]), without=())[0]
    found = layout.features(table(c=["a", "b", "other"]))
    np.testing.assert_array_equal(np.asarray(found), [[1, 0], [0, 1], [0, 0]])


def test_only_frequent_levels_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_LEVELS", 2)
    assert choose(table(c=["a", "b", "b", "c", "c"]), without=())[0].categories[0].levels == ("b", "c")


def test_numbers_alone_stay_as_they_are_and_beside_text_they_are_standardised() -> None:
    alone = table(a=[1.0, 2.0, 3.0, 6.0])
    np.testing.assert_array_equal(choose(alone, without=())[0].features(alone), [[1], [2], [3], [6]])
    beside = table(a=[float(i % 4) for i in range(30)], b=[7.0] * 30, t=texts(30))
    found = choose(beside, without=())[0].features(beside).toarray()
    np.testing.assert_allclose(found[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(found[:, 0].std(), 1, rtol=1e-5)
    np.testing.assert_array_equal(found[:, 1], 0)


def test_pixels_are_shares_of_white_and_colours_are_kept(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 51)
    picture(tmp_path / "b.png", 255, "RGB")
    grey = table(tmp_path, f=["a.png"])
    np.testing.assert_allclose(choose(grey, without=())[0].features(grey), np.full((1, 784), 0.2), atol=1e-6)
    coloured = table(tmp_path, f=["b.png"])
    found = np.asarray(choose(coloured, without=())[0].features(coloured)).reshape(16, 16, 3)
    np.testing.assert_array_equal(found[0, 0], [1, 0, 0])


def test_sixteen_bits_are_scaled_not_cut(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 32768, np.uint16)).save(tmp_path / "a.png")
    given = table(tmp_path, f=["a.png"])
    np.testing.assert_allclose(choose(given, without=())[0].features(given)[0, 0], 0.5, atol=0.01)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"no picture", "cannot be read"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 30, "cannot be read"),
        (None, "does not exist"),
    ],
)
def test_an_image_that_cannot_be_read_is_named_with_its_row(tmp_path: Path, content: bytes | None, words: str) -> None:
    picture(tmp_path / "a.png", 9)
    if content is not None:
        (tmp_path / "bad.png").write_bytes(content)
    given = table(tmp_path, f=["a.png"] * 24 + ["bad.png"])
    layout = choose(given, without=())[0]
    with pytest.raises(ProblemError, match=rf"t.csv, line 26, column 'f': the image '.*bad.png' {words}"):
        layout.features(given)


def test_a_cut_image_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50)).astype(np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:800])
    given = table(tmp_path, f=["a.png"])
    with pytest.raises(ProblemError, match=r"line 2, column 'f': the image"):
        choose(given, without=())[0].features(given)


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "a.png", 9)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ProblemError, match="has too many pixels"):
        choose(table(tmp_path, f=["a.png"]), without=())[0]


@pytest.mark.parametrize(("cell", "words"), [(" ", "names no image"), ("https://x/a.png", "is an address")])
def test_an_image_that_is_no_file_is_refused(tmp_path: Path, cell: str, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        choose(table(tmp_path, f=[cell]), image=["f"], without=())[0]


def test_a_layout_survives_json_and_gives_the_same_features() -> None:
    days = [f"2024-01-{i + 1:02}" for i in range(30)]
    given = table(a=[float(i % 4) for i in range(30)], d=days, c=["u", "v", "w"] * 10, t=texts(30))
    layout = choose(given, without=())[0]
    again = Layout.from_dict(json.loads(json.dumps(layout.to_dict())))
    assert again == layout
    assert (again.features(given) != layout.features(given)).nnz == 0
