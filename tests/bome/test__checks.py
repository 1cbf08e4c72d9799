"""Names, numbers and settings are refused in one wording, with the remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from bome._checks import (
    check_arguments,
    check_choice,
    check_count,
    check_decay,
    check_nonnegative,
    check_positive,
    check_share,
    choose,
    field_types,
    known,
    parse,
)
from bome.errors import ProblemError

Colour = Literal["red", "green"]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "hint"), [("gren", "did you mean 'green'?"), ("zzz", "known: red, green"), ("", "known: red, green")]
)
def test_an_unknown_name_is_answered_with_the_nearest_or_with_all(name: str, hint: str) -> None:
    with pytest.raises(ProblemError) as error:
        known("colour", name, ("red", "green"))
    assert str(error.value) == f"unknown colour {name!r}; {hint}"


def test_a_known_name_gives_itself_or_its_option() -> None:
    assert known("colour", "red", iter(("red", "green"))) == "red"
    assert choose("colour", "red", {"red": 1, "green": 2}) == 1
    with pytest.raises(ProblemError, match="unknown colour 'rad'; did you mean 'red'"):
        choose("colour", "rad", {"red": 1, "green": 2})


@dataclass
class Fields:
    count: int
    rate: float | None = None
    _hidden: bool = False


def test_the_fields_of_a_dataclass_are_read_with_their_types() -> None:
    assert field_types(Fields) == {"count": int, "rate": float | None}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("1e3", int, 1000),
        (3, int, 3),
        ("0.5", float, 0.5),
        ("0.5", float | None, 0.5),
        ("True", bool, True),
        (False, bool, False),
        ("red", Colour, "red"),
        ("any text", str, "any text"),
    ],
)
def test_a_setting_becomes_a_value_of_its_type(text: Any, kind: Any, value: Any) -> None:
    result = parse("key", text, kind)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("1.5", int, "a whole number"),
        ("inf", int, "a whole number"),
        (None, int, "a whole number"),
        ("much", float, "a number"),
        ("yes", bool, "true or false"),
        ("blue", Colour, "one of red, green"),
    ],
)
def test_a_text_of_another_type_is_refused(text: Any, kind: Any, wanted: str) -> None:
    with pytest.raises(ProblemError) as error:
        parse("key", text, kind)
    assert str(error.value) == f"key must be {wanted}, got {text!r}"


@pytest.mark.parametrize(
    ("check", "good", "bad", "wanted"),
    [
        (check_positive, [1, 0.5, np.float32(2)], [0, -1, NAN, INF, "1", None], "a positive number"),
        (check_nonnegative, [0, 1.5], [-1, NAN, INF, "1"], "0 or a positive number"),
        (check_count, [1, np.int64(3)], [0, -1, 1.5, True, "1", None], "a whole number of at least 1"),
        (check_decay, [0, 0.9], [1, -0.1, NAN, "0"], "in [0, 1)"),
        (check_share, [0.1, 0.9], [0, 1, NAN, "0"], "between 0 and 1"),
    ],
)
def test_numbers_out_of_range_are_refused(
    check: Callable[[str, Any], None], good: list[Any], bad: list[Any], wanted: str
) -> None:
    for value in good:
        check("x", value)
    for value in bad:
        with pytest.raises(ProblemError) as error:
            check("x", value)
        assert str(error.value) == f"x must be {wanted}, got {value!r}"


def test_the_least_count_is_told() -> None:
    check_count("Q", 0, least=0)
    with pytest.raises(ProblemError, match="Q must be a whole number of at least 2, got 1"):
        check_count("Q", 1, least=2)


def test_a_choice_is_one_of_the_words_of_a_literal() -> None:
    check_choice("colour", "red", Colour)
    with pytest.raises(ProblemError, match="colour must be one of 'red', 'green', got 'blue'"):
        check_choice("colour", "blue", Colour)


class Method3:
    def __call__(self, v: Any, theta: Any, batch: Any) -> None: ...

    def loss(self, v: Any, theta: Any, batch: Any = None) -> None: ...


@pytest.mark.parametrize("fine", [Method3(), Method3().loss, lambda *a: None, lambda v, theta, batch, seed=0: v, max])
def test_what_can_be_called_with_three_arguments_passes(fine: Callable[..., Any]) -> None:
    check_arguments("f", fine, "scalar")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda v, theta: v, r"^f must take three arguments \(v, theta, batch\), but it takes \(v, theta\)$"),
        (lambda v, theta, batch, seed: v, r"but it takes \(v, theta, batch, seed\)$"),
        (lambda v, theta, *, batch: v, r"but it takes \(v, theta, \*, batch\)$"),
        (Method3, r"but it takes \(\)$"),
        (None, r"^f must be a function \(v, theta, batch\) -> scalar, got NoneType$"),
    ],
)
def test_other_functions_are_refused_in_one_line(bad: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        check_arguments("f", bad, "scalar")


def test_of_many_names_an_error_lists_the_first() -> None:
    with pytest.raises(ProblemError, match=r"unknown task 'zzz'; known: a0, a1, .*, a11, and 38 more$"):
        known("task", "zzz", [f"a{number}" for number in range(50)])
