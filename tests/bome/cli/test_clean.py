"""`bome clean` and `bome predict`: what they write, and every bad input as one line."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bome.apps.clean import outputs
from bome.cli.main import execute
from bome.estimators import HyperCleaner
from tests.support.tables import CLEAN, noisy

Files = dict[str, bytes]

TRAIN = b"a,b,y\n" + b"".join(f"{i % 7},{i * i % 11},{'yes' if i % 2 else 'no'}\n".encode() for i in range(40))
TRUSTED = b"a,b,y\n0.5,1,yes\n1.5,2,no\n2.5,3,yes\n3.5,4,no\n"
MANY_CLASSES = b"a,b,y\n" + b"".join(b"1,2,c%d\n" % (i // 2) for i in range(2100))
LABEL = ["--label", "y"]


def train(content: bytes) -> Files:
    return {"train.csv": content, "trusted.csv": TRUSTED}


def trusted(content: bytes) -> Files:
    return {"train.csv": TRAIN, "trusted.csv": content}


def both(line: bytes) -> bytes:
    """The training table with one line changed: the fourth of the file."""
    lines = TRAIN.split(b"\n")
    lines[3] = line
    return b"\n".join(lines)


BAD: list[tuple[str, Files, list[str], str]] = [
    # files that are no tables
    ("empty", train(b""), LABEL, "train.csv is empty"),
    ("blank", train(b"\n\n  \n"), LABEL, "train.csv is empty"),
    ("only a byte order mark", train(b"\xef\xbb\xbf"), LABEL, "train.csv is empty"),
    ("header only", train(b"a,b,y\n"), LABEL, "train.csv has a header and no rows"),
    ("header without end", train(b"a,b,y"), LABEL, "train.csv has a header and no rows"),
    ("header and blank lines", train(b"a,b,y\n\n\n"), LABEL, "train.csv has a header and no rows"),
    ("trusted empty", trusted(b""), LABEL, "trusted.csv is empty"),
    ("trusted header only", trusted(b"a,b,y\n"), LABEL, "trusted.csv has a header and no rows"),
    ("missing", {"trusted.csv": TRUSTED}, LABEL, "train.csv does not exist"),
    ("missing, nearest", {"trusted.csv": TRUSTED, "trian.csv": TRAIN}, LABEL, "did you mean 'trian.csv'?"),
    ("missing trusted", {"train.csv": TRAIN}, LABEL, "trusted.csv does not exist"),
    ("zip", train(b"PK\x03\x04rest"), LABEL, "is an Excel workbook or a zip archive: save the table as CSV"),
    ("gzip", train(b"\x1f\x8b\x08rest"), LABEL, "is compressed by gzip: unpack it"),
    ("bzip2", train(b"BZh91AY"), LABEL, "is compressed by bzip2"),
    ("xz", train(b"\xfd7zXZ\x00\x00"), LABEL, "is compressed by xz"),
    ("zstd", train(b"(\xb5/\xfd\x00"), LABEL, "is compressed by zstd"),
    ("xls", train(b"\xd0\xcf\x11\xe0\xa1"), LABEL, "is an old Excel workbook"),
    ("pdf", train(b"%PDF-1.4\n"), LABEL, "is a PDF document"),
    ("png", train(b"\x89PNG\r\n\x1a\n"), LABEL, "is a picture, not a table"),
    ("jpeg", train(b"\xff\xd8\xff\xe0"), LABEL, "is a picture, not a table"),
    ("sqlite", train(b"SQLite format 3\x00"), LABEL, "is a database"),
    ("damaged parquet", train(b"PAR1 and nothing else"), LABEL, "train.csv is a damaged Parquet file"),
    (
        "no parquet",
        {"train.csv": TRAIN, "trusted.csv": TRUSTED, "t.parquet": TRAIN},
        [*LABEL, "--trusted", "t.parquet"],
        "t.parquet is not a Parquet file",
    ),
    ("zero bytes", train(b"a,b,y\n1,\x00,x\n"), LABEL, "train.csv, line 2 holds a zero byte"),
    # encodings
    ("utf-16", train(TRAIN.decode().encode("utf-16")), LABEL, "in UTF-16: convert it with 'iconv -f UTF-16"),
    ("latin-1", train(both(b"1,2,caf\xe9")), LABEL, "line 4, byte 8 (0xe9) is not UTF-8: convert the file"),
    ("latin-1 header", train(b"\xe4,b,y\n"), LABEL, "train.csv, line 1, byte 1 (0xe4) is not UTF-8"),
    ("cut in a letter", train(TRAIN + "1,2,é".encode()[:-1]), LABEL, "line 42, byte 5 (0xc3) is not UTF-8"),
    ("latin-1 trusted", trusted(TRUSTED + b"1,2,\xff\n"), LABEL, "trusted.csv, line 6, byte 5 (0xff)"),
    # the shape
    ("long row", train(both(b"1,2,yes,4")), LABEL, "train.csv, line 4 has 4 cells, the header has 3"),
    ("short row", train(both(b"1,2")), LABEL, "train.csv, line 4 has 2 cells, the header has 3"),
    ("one cell", train(both(b"1")), LABEL, "train.csv, line 4 has 1 cell, the header has 3"),
    ("ragged after a quoted line end", train(b'a,b,y\n1,"2\n",x\n1,2\n'), LABEL, "line 4 has 2 cells"),
    ("ragged trusted", trusted(TRUSTED + b"1,2\n"), LABEL, "trusted.csv, line 6 has 2 cells"),
    ("semicolons in rows only", train(b"a,b,y\n1;2;x\n"), LABEL, "line 2 has 1 cell, the header has 3"),
    ("open quote", train(both(b'1,2,"yes')), LABEL, "train.csv, line 4 opens a quote that is never closed"),
    ("quote in the wrong place", train(both(b'1,2,"yes"x')), LABEL, "line 4 has a quote in the wrong place"),
    ("endless cell", train(both(b'1,2,"' + b"x" * 200_000)), LABEL, "line 4 has a cell of more than 131,072"),
    ("columns twice", train(b"a,a,y\n1,2,x\n"), LABEL, "train.csv has two columns 'a': rename one"),
    ("columns twice but for spaces", train(b"a, a,y\n1,2,x\n"), LABEL, "train.csv has two columns 'a'"),
    ("column without name", train(b"a,,y\n1,2,x\n"), LABEL, "train.csv: column 2 has no name"),
    ("only labels", {"train.csv": b"y\nx\nx\nz\n", "trusted.csv": b"y\nx\nz\n"}, LABEL, "no column to learn from"),
    # the label
    ("label missing", train(TRAIN), ["--label", "label"], "train.csv has no column 'label' (--label); it has a, b, y"),
    ("label misspelt", train(TRAIN.replace(b"y\n", b"answer\n", 1)), ["--label", "anwser"], "did you mean 'answer'?"),
    ("label in capitals", train(TRAIN), ["--label", "Y"], "did you mean 'y'?"),
    ("no header", train(b"1,2,0\n3,4,1\n"), LABEL, "its first line holds numbers: put the names"),
    ("label empty", train(both(b"1,2,")), LABEL, "train.csv, line 4, column 'y' has no label"),
    ("label blank", train(both(b"1,2,  ")), LABEL, "train.csv, line 4, column 'y' has no label"),
    ("trusted label empty", trusted(TRUSTED + b"1,2,\n"), LABEL, "trusted.csv, line 6, column 'y' has no label"),
    ("one class", train(b"a,b,y\n1,2,x\n2,3,x\n"), LABEL, "column 'y' has only the label 'x'"),
    ("one row", train(b"a,b,y\n1,2,x\n"), LABEL, "column 'y' has only the label 'x'"),
    ("all unique", train(b"a,b,y\n1,2,u\n2,3,v\n3,4,w\n"), LABEL, "has another value in each of 3 rows"),
    ("class not trusted", train(both(b"1,2,perhaps")), LABEL, "trusted.csv has no row labelled 'perhaps', but train"),
    ("class only trusted", trusted(TRUSTED + b"1,2,Yes\n"), LABEL, "train.csv has no row labelled 'Yes', but trusted"),
    ("too many classes", train(MANY_CLASSES), LABEL, "has 1,050 different labels; at most 1,000"),
    # values
    ("nan", train(both(b"nan,2,yes")), LABEL, "train.csv, line 4, column 'a' has no number: fill it in"),
    ("NA", train(both(b"1,NA,yes")), LABEL, "train.csv, line 4, column 'b' has no number"),
    ("empty cell", train(both(b",2,yes")), LABEL, "train.csv, line 4, column 'a' has no number"),
    ("infinity", train(both(b"1,inf,yes")), LABEL, "line 4, column 'b' has an infinite or too large number"),
    ("minus infinity", train(both(b"1,-Infinity,yes")), LABEL, "line 4, column 'b' has an infinite or too large"),
    ("too large", train(both(b"1,1e400,yes")), LABEL, "line 4, column 'b' has an infinite or too large number"),
    ("too large for 32 bits", train(both(b"1,1e39,yes")), LABEL, "line 4, column 'b' has an infinite or too large"),
    ("a word", train(both(b"1,two,yes")), LABEL, "train.csv, line 4, column 'b': 'two' is not a number; correct it"),
    ("a sign", train(both("1,∞,yes".encode())), LABEL, "line 4, column 'b': '∞' is not a number"),
    ("hexadecimal", train(both(b"1,0x1F,yes")), LABEL, "line 4, column 'b': '0x1F' is not a number"),
    ("thousands", train(both(b'1,"1,000",yes')), LABEL, "line 4, column 'b': '1,000' is not a number"),
    ("a date", train(both(b"1,2024-01-01,yes")), LABEL, "line 4, column 'b': '2024-01-01' is not a number"),
    ("trusted nan", trusted(TRUSTED + b"1,nan,yes\n"), LABEL, "trusted.csv, line 6, column 'b' has no number"),
    ("trusted word", trusted(TRUSTED + b"1,two,yes\n"), LABEL, "line 6, column 'b': 'two' is not a number"),
    # the two tables
    ("trusted lacks a column", trusted(b"a,y\n1,yes\n2,no\n"), LABEL, "trusted.csv has no column 'b' (which train.csv"),
    ("trusted has one more", trusted(b"a,b,c,y\n1,2,3,yes\n2,3,4,no\n"), LABEL, "trusted.csv has a column 'c' that"),
    ("trusted lacks the label", trusted(b"a,b\n1,2\n"), LABEL, "trusted.csv has no column 'y'"),
    ("the same file", train(TRAIN), [*LABEL, "--trusted", "train.csv"], "is the training table itself"),
    # options
    ("text missing", train(TRAIN), [*LABEL, "--text", "words"], "has no column 'words' (--text)"),
    ("image missing", train(TRAIN), [*LABEL, "--image", "file"], "has no column 'file' (--image)"),
    ("drop missing", train(TRAIN), [*LABEL, "--drop", "c"], "has no column 'c' (--drop)"),
    ("drop the label", train(TRAIN), [*LABEL, "--drop", "y"], "'y' is the label and cannot be given to --drop"),
    ("drop everything", train(TRAIN), [*LABEL, "--drop", "a", "--drop", "b"], "has no column to learn from"),
    ("text and dropped", train(TRAIN), [*LABEL, "--text", "a", "--drop", "a"], "'a' is given to two of"),
    ("text without words", train(TRAIN), [*LABEL, "--text", "a"], "column 'a' holds no words"),
    ("no image there", train(TRAIN), [*LABEL, "--image", "a"], "line 2, column 'a': the image '0' does not exist"),
    ("a bad seed", train(TRAIN), [*LABEL, "--seed", "-1"], "Invalid value for '--seed'"),
    ("out is a file", train(TRAIN), [*LABEL, "--out", "train.csv"], "train.csv is a file: choose another --out"),
    ("out holds others", {**train(TRAIN), "x/thesis.tex": b"precious"}, [*LABEL, "--out", "x"], "nothing of bome"),
]  # fmt: skip


def write_files(place: Path, files: Files) -> None:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


def names_in(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _place(place: Path) -> None:
    """Everything here is done in an empty working directory."""


def test_there_are_at_least_sixty_bad_files() -> None:
    assert len({(name, str(files)) for name, files, _, _ in BAD}) >= 60


@pytest.mark.parametrize(("name", "files", "options", "words"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_input_is_one_line_exit_2_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], name: str, files: Files, options: list[str], words: str
) -> None:
    write_files(place, files)
    arguments = ["clean", "train.csv", *([] if "--trusted" in options else ["--trusted", "trusted.csv"]), *options]
    assert execute(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line for line in printed.err.splitlines() if not line.startswith("warning: ")] == [
        printed.err.splitlines()[-1]
    ]
    assert printed.err.splitlines()[-1].startswith("error: ")
    assert words in printed.err
    assert names_in(place) == set(files)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "train.csv is a directory: name a CSV or Parquet file in it"),
        (os.mkfifo, "train.csv is not a regular file"),
        (lambda path: path.symlink_to(path), "cannot read train.csv: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "train.csv is not a regular file"),
    ],
    ids=["directory", "pipe", "loop", "endless device"],
)
def test_what_is_no_file_is_refused_at_once(
    place: Path, capsys: pytest.CaptureFixture[str], make: Any, words: str
) -> None:
    (place / "trusted.csv").write_bytes(TRUSTED)
    make(place / "train.csv")
    assert execute(["clean", "train.csv", "--trusted", "trusted.csv", *LABEL]) == 2
    assert words in capsys.readouterr().err


# --- a whole cleaning ------------------------------------------------------------------------------------------------


def test_clean_writes_what_it_promises(copy: Path) -> None:
    assert {path.name for path in (copy / "out").iterdir()} == {
        "config.json", "findings.json", "weights.csv", "issues.csv", "model.safetensors", "report.html", "summary.json",
    }  # fmt: skip
    summary = json.loads((copy / "out" / "summary.json").read_text())
    assert (summary["status"], summary["rows"], summary["trusted_rows"]) == ("finished", 200, 40)
    assert summary["classes"] == ["-1", "=yes()"]
    weights = pd.read_csv(copy / "out" / "weights.csv")
    assert weights["row"].tolist() == list(range(200))
    assert weights["weight"].between(0, 1).all()


def test_the_wrong_labels_are_found_and_weigh_less(copy: Path) -> None:
    _, wrong = noisy(200, 0.3, 0)
    weights = pd.read_csv(copy / "out" / "weights.csv")["weight"].to_numpy()
    assert weights[wrong].mean() < 0.5 * weights[~wrong].mean()
    issues = pd.read_csv(copy / "out" / "issues.csv")
    assert issues["suspicion"].is_monotonic_decreasing
    assert issues["line"].tolist() == (issues["row"] + 2).tolist()
    called = np.zeros(200, dtype=bool)
    called[issues["row"]] = True
    assert (called == wrong).mean() > 0.95


def test_no_cell_is_a_formula_and_numbers_stay_numbers(copy: Path) -> None:
    labels = set(pd.read_csv(copy / "out" / "issues.csv", dtype=str)["given_label"])
    assert labels == {"-1", "'=yes()"}


def test_one_trusted_row_of_each_class_is_enough_for_a_page(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trusted = pd.read_csv("trusted.csv").drop_duplicates("y")
    trusted.to_csv("few.csv", index=False)
    assert execute(["clean", "train.csv", "--trusted", "few.csv", "--label", "y", "--out", "few"]) == 0
    assert "too few trusted rows" in " ".join(capsys.readouterr().out.split())
    assert "too few trusted rows" in Path("few/report.html").read_text()
    assert "--out few" in json.loads(Path("few/summary.json").read_text())["command"]


def test_a_finished_cleaning_is_told_and_not_repeated(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(HyperCleaner, "fit", None)  # nobody may call it
    before = {path.name: path.stat().st_mtime_ns for path in (copy / "out").iterdir()}
    assert execute([*CLEAN, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished before"
    assert {path.name: path.stat().st_mtime_ns for path in (copy / "out").iterdir()} == before


def test_the_folder_of_another_cleaning_is_left_alone(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change in (["--seed", "1"], ["--drop", "kind"]):
        assert execute([*CLEAN, *change]) == 2
        assert "out holds another cleaning, with other inputs or settings" in capsys.readouterr().err


def test_by_default_each_cleaning_has_a_folder_of_its_own(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path] = []

    def clean_into(place: Path, *inputs: Any) -> None:
        places.append(place)
        raise KeyboardInterrupt  # the rest does not matter here

    monkeypatch.setattr(outputs, "clean_into", clean_into)
    shutil.copytree("out", "runs/clean-train")
    for seed in ("0", "1"):
        execute([*CLEAN[:-2], "--seed", seed, "--quiet"])
    assert places == [Path("runs/clean-train"), Path("runs/clean-train-2")]  # seed 0 is there already


def test_trusted_rows_in_the_training_table_are_a_warning(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (copy / "train.csv").open("a") as file:
        file.write("\n".join((copy / "trusted.csv").read_text().splitlines()[1:4]) + "\n")
    assert execute([*CLEAN]) == 2  # other data than that of the folder
    assert "warning: 3 of 40 rows of trusted.csv are also in train.csv" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["/proc/nowhere/x", "/dev/null/x"])
def test_an_unwritable_place_is_exit_4_before_anything_is_fitted(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    monkeypatch.setattr(HyperCleaner, "fit", None)
    assert execute([*CLEAN[:-1], out]) == 4
    assert capsys.readouterr().err.startswith(f"error: cannot write {out}/config.json: ")


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_damaged_files_of_a_cleaning_are_exit_4(copy: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (copy / "out" / name).write_text("{")
    assert execute(CLEAN) == 4
    assert f"out/{name} is damaged" in capsys.readouterr().err


def test_an_interruption_tells_the_complete_command(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fit(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(HyperCleaner, "fit", fit)
    assert execute([*CLEAN[:-1], "again", "--drop", "kind"]) == 130
    command = "bome clean train.csv --trusted trusted.csv --label y --drop kind --out again --seed 0"
    assert "continue with: bome resume again" in capsys.readouterr().err
    assert json.loads(Path("again/config.json").read_text())["command"] == command


def test_equal_commands_give_equal_files(copy: Path) -> None:
    assert execute([*CLEAN[:-1], "again", "--quiet"]) == 0
    for name in ("weights.csv", "issues.csv", "model.safetensors"):
        assert (copy / "again" / name).read_bytes() == (copy / "out" / name).read_bytes()
