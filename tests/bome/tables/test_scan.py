"""Reading tables: every usual form, every defect told by its place, and no input that breaks the reader."""

import random
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bome.apps.clean import cleaning
from bome.apps.clean.cleaning import Request
from bome.errors import BilevelError, ProblemError
from bome.tables import scan


def read(path: Path, content: bytes | str, strings: tuple[str, ...] = ("y",)) -> scan.Table:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = scan.scan(path)
    return scan.load(found, strings=[name for name in strings if name in found.names], only=found.names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_all_usual_delimiters_and_line_ends_give_the_same_table(
    path: Path, delimiter: str, end: str, mark: str
) -> None:
    lines = [("a", "b c", "y"), ("1.5", "-2", "x"), ("2e3", "+.5", '"q""r"')]
    table = read(path, mark + end.join(delimiter.join(line) for line in lines) + end)
    assert list(table.frame.columns) == ["a", "b c", "y"]
    assert table.frame["a"].tolist() == [1.5, 2000.0]
    assert table.frame["b c"].tolist() == [-2.0, 0.5]
    assert table.frame["y"].tolist() == ["x", 'q"r']
    assert table.numbers == {"a", "b c"}


def test_lines_are_those_of_the_file_also_behind_blank_ones_and_quoted_line_ends(path: Path) -> None:
    table = read(path, '\na,y\n\n1,"x\n\nx"\n  \n2,z\n')
    assert table.lines is not None
    assert table.lines.tolist() == [4, 8]
    assert table.frame["y"].tolist() == ["x\n\nx", "z"]
    assert table.place(1) == f"{path}, line 8"


def test_decimal_commas_are_read_where_the_delimiter_leaves_no_doubt(path: Path) -> None:
    assert read(path, "a;y\n1,5;x\n-2;z\n").frame["a"].tolist() == [1.5, -2.0]
    assert read(path, "a;t;y\n1.5;1,5 m;x\n2.5;2,5;z\n").numbers == {"a"}  # not a column of numbers
    with pytest.raises(ProblemError, match="column 't' has numbers with a comma, column 'a' with a point"):
        read(path, "a;t;y\n1.5;1,5;x\n2.5;2,5;z\n")


def test_a_first_column_without_name_is_that_of_row_names(path: Path) -> None:
    assert list(read(path, ",a,y\n0,1,x\n").frame.columns) == [scan.FIRST_UNNAMED, "a", "y"]


def test_text_that_looks_missing_stays_text(path: Path) -> None:
    assert read(path, "country,y\nNA,null\nDE,x\n", ("y",)).frame.to_dict("list") == {
        "country": ["NA", "DE"],
        "y": ["null", "x"],
    }


def test_numbers_are_those_of_pandas_in_double_precision_to_seven_digits(path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((200, 3)) * 10.0 ** np.arange(-6, 9, 5)
    pd.DataFrame(values, columns=["a", "b", "c"]).to_csv(path, index=False)
    found = scan.scan(path)
    np.testing.assert_allclose(scan.load(found, only=found.names).frame.to_numpy(), values, rtol=1e-6)


def test_a_column_with_a_few_words_among_numbers_is_refused_and_one_with_many_is_text(path: Path) -> None:
    rows = "".join(f"{i},x\n" for i in range(40))
    with pytest.raises(ProblemError, match=r"t.csv, line 42, column 'a': 'none of it' is not a number"):
        read(path, f"a,y\n{rows}none of it,x\n")
    assert read(path, "a,y\n1,x\nB2,x\n3,x\n").numbers == frozenset()


def test_a_word_far_behind_the_sample_is_named(path: Path) -> None:
    rows = "".join(f"{i},x\n" for i in range(scan.SAMPLE + 500))
    with pytest.raises(ProblemError, match=rf"line {scan.SAMPLE + 502}, column 'a': 'oops' is not a number"):
        read(path, f"a,y\n{rows}oops,x\n")


def test_a_line_without_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE", 1000)
    with pytest.raises(ProblemError, match="line 2 has more than 1,000 characters"):
        read(path, "a,y\n" + "1" * 2000)


def test_too_many_columns_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_COLUMNS", 3)
    with pytest.raises(ProblemError, match="has 4 columns; at most 3"):
        read(path, "a,b,c,d\n1,2,3,4\n")


@pytest.mark.parametrize(
    ("given", "same"), [(" 3 ", "3"), ("3.0", "3"), ("-1.0", "-1"), ("3.5", "3.5"), ("x.0", "x.0")]
)
def test_a_label_has_one_form(given: str, same: str) -> None:
    assert scan.canonical(given) == same


def test_parquet_gives_the_same_table_as_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, None], "t": ["x", None], "flag": [True, False], "y": [3.0, 4.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    found = scan.scan(tmp_path / "t.parquet")
    table = scan.load(found, strings=["y"], only=["a", "t", "flag", "y"])
    assert table.frame.to_dict("list") == {"a": [1.0, 2.0], "t": ["x", ""], "flag": [1.0, 0.0], "y": ["3", "4"]}
    assert table.place(1).endswith("t.parquet, row 1")
    with pytest.raises(ProblemError, match="row 1, column 'b' has no number"):
        scan.load(found, only=["a", "b"])
    with pytest.raises(ProblemError, match="column 't' must hold numbers"):
        scan.load(found, numbers=["a", "t"], only=["a", "t"])


def test_nested_parquet_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [[1], [2]], "y": ["u", "v"]}).to_parquet(tmp_path / "t.parquet")
    found = scan.scan(tmp_path / "t.parquet")
    with pytest.raises(ProblemError, match="column 'a' holds nested values"):
        scan.load(found, only=found.names)


# --- fuzz ------------------------------------------------------------------------------------------------------------

PIECES = [
    b",",
    b";",
    b"\t",
    b"|",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b'""',
    b"'",
    b"\\",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b" ",
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"-1e39",
    b"1e-400",
    b"NA",
    b"0x10",
    b"1_000",
    b"1,5",
    "∞".encode(),
    "é".encode(),
    "\u2028".encode(),
    "\x85".encode(),
    b"=1+1",
    b"-",
    b"+",
    b"--1",
    b"1e",
    b".",
    b"9" * 400,
    b"a" * 5000,
    b",,,,",
    b"\n\n",
    b"#",
    b"<script>",
    b"img.png",
    b"http://x/y.png",
    b"\x1a",
    b"\x0b",
    b"\x0c",
    b"the quick brown fox jumps",
    b"y",
    b"True",
]


def base(random: random.Random, rows: int) -> bytes:
    """A table as people have it."""
    delimiter = random.choice([",", ",", ";", "\t"])
    kinds = [random.choice("nnnct") for _ in range(random.randint(1, 4))]
    lines = [[f"c{i}" for i in range(len(kinds))] + ["y"]]
    for _ in range(rows):
        cells = []
        for kind in kinds:
            words = " ".join(random.choice(["red", "green", "blue", "fox", "of"]) for _ in range(random.randint(3, 6)))
            cells.append({"n": f"{random.gauss(0, 3):.3f}", "c": random.choice("uvw"), "t": words}[kind])
        lines.append([*cells, random.choice(["p", "q"])])
    return "\n".join(delimiter.join(line) for line in lines).encode() + b"\n"


def spoil(random: random.Random, content: bytes) -> bytes:
    """The table with some accidents."""
    data = bytearray(content)
    for _ in range(random.choice([0, 1, 1, 2, 3, 8])):
        at = random.randrange(len(data) + 1)
        match random.randrange(7):
            case 0:
                data[at:at] = random.choice(PIECES)
            case 1 if data:
                data[at % len(data)] = random.randrange(256)
            case 2:
                del data[at : at + random.choice([1, 1, 5, 50])]
            case 3:
                del data[at:]
            case 4:
                lines = bytes(data).split(b"\n")
                lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
                data = bytearray(b"\n".join(lines))
            case 5:
                cells = bytes(data).split(b",")
                cells[random.randrange(len(cells))] = random.choice(PIECES)
                data = bytearray(b",".join(cells))
            case _:
                data[at:at] = random.randbytes(random.choice([1, 3, 20]))
    return bytes(data)


def noise(random: random.Random) -> bytes:
    """No table at all."""
    return b"".join(random.choice(PIECES) for _ in range(random.randrange(60)))


def fuzz(folder: Path, seeds: range) -> dict[str, int]:
    """Read many accidents; each is read, or refused in one line, within two seconds."""
    outcomes = {"read": 0, "refused": 0}
    for seed in seeds:
        drawn = random.Random(seed)  # noqa: S311 - no secret
        table = base(drawn, drawn.choice([1, 3, 30]))
        train = noise(drawn) if drawn.random() < 0.1 else spoil(drawn, table)
        trusted = spoil(drawn, table) if drawn.random() < 0.3 else table
        (folder / "train.csv").write_bytes(train)
        (folder / "trusted.csv").write_bytes(trusted)
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                inputs = cleaning.read(Request(folder / "train.csv", folder / "trusted.csv", "y"))
        except BilevelError:
            outcomes["refused"] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        else:
            assert inputs.x.shape[0] == len(inputs.y) > 0, seed
            values = inputs.x if isinstance(inputs.x, np.ndarray) else inputs.x.data
            assert np.isfinite(values).all(), seed
            outcomes["read"] += 1
        assert time.monotonic() - started < 2, seed
    return outcomes


def test_200_accidents_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = fuzz(tmp_path, range(200))
    assert min(outcomes.values()) >= 20  # the generator makes both kinds


@pytest.mark.slow
def test_5000_accidents_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = fuzz(tmp_path, range(1000, 6000))
    assert min(outcomes.values()) >= 500
