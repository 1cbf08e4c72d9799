"""Looking over a table: names, lines, delimiter and decimal sign; every defect is told by its place."""

from pathlib import Path

import pytest

from bome.errors import ProblemError
from bome.tables import scan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


def look(path: Path, content: str) -> scan.Scan:
    path.write_text(content, newline="")
    return scan.scan(path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_cuts_the_header_into_most_cells(path: Path, delimiter: str) -> None:
    source = look(
        path, delimiter.join(["a", '"x,,,;;;\t\t\t|||"', "y"]) + "\n" + delimiter.join(["1", "2", "z"]) + "\n"
    )
    assert source.delimiter == delimiter
    assert source.names == ("a", "x,,,;;;\t\t\t|||", "y")


def test_lines_are_those_of_the_file(path: Path) -> None:
    source = look(path, '\na,y\n\n1,"x\n\nx"\n  \n2,z\n')
    assert source.lines is not None
    assert source.lines.tolist() == [4, 8]
    assert source.sample == (("1", "x\n\nx"), ("2", "z"))
    assert [(line, tuple(cells)) for line, cells in scan.rows(source)] == list(zip([4, 8], source.sample, strict=True))


def test_the_decimal_sign_is_a_comma_where_no_number_has_a_point(path: Path) -> None:
    assert look(path, "a;y\n1,5;x\n-2;z\n").decimal == ","
    assert look(path, "a;t;y\n1.5;1,5 m;x\n2.5;2,5;z\n").decimal == "."


def test_a_first_column_without_name_is_that_of_row_names(path: Path) -> None:
    assert look(path, ",a,y\n0,1,x\n").names == (scan.FIRST_UNNAMED, "a", "y")


def test_a_line_without_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE", 1000)
    with pytest.raises(ProblemError, match="line 2 has more than 1,000 characters"):
        look(path, "a,y\n" + "1" * 2000)


def test_too_many_columns_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_COLUMNS", 3)
    with pytest.raises(ProblemError, match="has 4 columns; at most 3"):
        look(path, "a,b,c,d\n1,2,3,4\n")


@pytest.mark.parametrize(
    ("names", "wanted", "hint"),
    [
        (("age", "city"), "ages", "did you mean 'age'?"),
        (("age", "city"), "CITY", "did you mean 'city'?"),
        (("age", "city"), "wxyz", "it has age, city"),
        (("1", "2.5"), "label", "its first line holds numbers"),
    ],
)
def test_a_missing_column_is_told_with_the_nearest_name(names: tuple[str, ...], wanted: str, hint: str) -> None:
    with pytest.raises(ProblemError) as error:
        scan.require(Path("t.csv"), names, wanted, "--label")
    assert f"t.csv has no column {wanted!r} (--label); " in str(error.value)
    assert hint in str(error.value)


def test_what_is_missing_or_infinite_counts_for_a_column_of_numbers() -> None:
    assert scan.are_numbers(["1", "NA", "inf", "-2e3"], ".")
    assert scan.are_numbers(["1,5", "2"], ",")
    assert not scan.are_numbers(["", "nan"], ".")
    assert not scan.are_numbers(["1", "two"], ".")
