"""The values of tables in every usual form; every wrong cell is named by its place."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bome.errors import ProblemError
from bome.tables.scan import SAMPLE, scan
from bome.tables.values import Table, canonical, load


def read(path: Path, content: bytes | str, strings: tuple[str, ...] = ("y",)) -> Table:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = scan(path)
    return load(source, strings=[name for name in strings if name in source.names], only=source.names)


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


def test_text_that_looks_missing_stays_text(path: Path) -> None:
    assert read(path, "country,y\nNA,null\nDE,x\n", ("y",)).frame.to_dict("list") == {
        "country": ["NA", "DE"],
        "y": ["null", "x"],
    }


def test_numbers_are_those_of_pandas_in_double_precision_to_seven_digits(path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((200, 3)) * 10.0 ** np.arange(-6, 9, 5)
    pd.DataFrame(values, columns=["a", "b", "c"]).to_csv(path, index=False)
    source = scan(path)
    np.testing.assert_allclose(load(source, only=source.names).frame.to_numpy(), values, rtol=1e-6)


def test_a_column_with_a_few_words_among_numbers_is_refused_and_one_with_many_is_text(path: Path) -> None:
    rows = "".join(f"{i},x\n" for i in range(40))
    with pytest.raises(ProblemError, match=r"t.csv, line 42, column 'a': 'none of it' is not a number"):
        read(path, f"a,y\n{rows}none of it,x\n")
    assert read(path, "a,y\n1,x\nB2,x\n3,x\n").numbers == frozenset()


def test_a_word_far_behind_the_sample_is_named(path: Path) -> None:
    rows = "".join(f"{i},x\n" for i in range(SAMPLE + 500))
    with pytest.raises(ProblemError, match=rf"line {SAMPLE + 502}, column 'a': 'oops' is not a number"):
        read(path, f"a,y\n{rows}oops,x\n")


@pytest.mark.parametrize(
    ("given", "same"), [(" 3 ", "3"), ("3.0", "3"), ("-1.0", "-1"), ("3.5", "3.5"), ("x.0", "x.0")]
)
def test_a_label_has_one_form(given: str, same: str) -> None:
    assert canonical(given) == same


def test_parquet_gives_the_same_table_as_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, None], "t": ["x", None], "flag": [True, False], "y": [3.0, 4.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    source = scan(tmp_path / "t.parquet")
    table = load(source, strings=["y"], only=["a", "t", "flag", "y"])
    assert table.frame.to_dict("list") == {"a": [1.0, 2.0], "t": ["x", ""], "flag": [1.0, 0.0], "y": ["3", "4"]}
    assert table.place(1).endswith("t.parquet, row 1")
    with pytest.raises(ProblemError, match="row 1, column 'b' has no number"):
        load(source, only=["a", "b"])
    with pytest.raises(ProblemError, match="column 't' must hold numbers"):
        load(source, numbers=["a", "t"], only=["a", "t"])


def test_nested_parquet_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [[1], [2]], "y": ["u", "v"]}).to_parquet(tmp_path / "t.parquet")
    source = scan(tmp_path / "t.parquet")
    with pytest.raises(ProblemError, match="column 'a' holds nested values"):
        load(source, only=source.names)


def test_decimal_commas_are_read_where_the_delimiter_leaves_no_doubt(path: Path) -> None:
    assert read(path, "a;y\n1,5;x\n-2;z\n").frame["a"].tolist() == [1.5, -2.0]
    assert read(path, "a;t;y\n1.5;1,5 m;x\n2.5;2,5;z\n").numbers == {"a"}  # not a column of numbers
    with pytest.raises(ProblemError, match="column 't' has numbers with a comma, column 'a' with a point"):
        read(path, "a;t;y\n1.5;1,5;x\n2.5;2,5;z\n")


def test_lines_are_those_of_the_file_also_behind_blank_ones_and_quoted_line_ends(path: Path) -> None:
    table = read(path, '\na,y\n\n1,"x\n\nx"\n  \n2,z\n')
    assert table.lines is not None
    assert table.lines.tolist() == [4, 8]
    assert table.frame["y"].tolist() == ["x\n\nx", "z"]
    assert table.place(1) == f"{path}, line 8"


def test_a_row_that_only_one_of_two_readers_sees_is_refused(path: Path) -> None:
    path.write_bytes(b"a,y\n1,x\n2,z\n")
    source = scan(path)
    path.write_bytes(b"a,y\n1,x\n")
    with pytest.raises(ProblemError, match="cannot be read: its quotes or line ends have two readings"):
        load(source, only=source.names)
