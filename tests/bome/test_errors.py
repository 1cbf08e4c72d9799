"""Errors: what they say, the exit code of each, and that they reach another process whole."""

import copy
import signal

import pytest

from bome.errors import (
    BilevelError,
    NonFiniteError,
    ProblemError,
    RankError,
    RunInterruptedError,
    StorageError,
    UnsupportedError,
    WorkerError,
)


def all_errors() -> list[BilevelError]:
    return [
        ProblemError("a"),
        UnsupportedError("b"),
        NonFiniteError(2, "f", "try less"),
        StorageError("c"),
        RankError(1, [0, 3]),
        WorkerError(),
        RunInterruptedError(signal.SIGTERM, 3),
    ]


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: type(error).__name__)
def test_errors_cross_to_another_process_whole(error: BilevelError) -> None:
    error.add_note("and more")
    there = copy.copy(error)  # by what pickle uses
    assert (type(there), str(there), vars(there)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("kind", "builtin", "code"),
    [
        (ProblemError, ValueError, 2),
        (UnsupportedError, TypeError, 2),
        (NonFiniteError, ArithmeticError, 3),
        (StorageError, OSError, 4),
        (RankError, RuntimeError, 4),
        (WorkerError, RuntimeError, 4),
        (RunInterruptedError, BilevelError, 143),
    ],
)
def test_each_is_a_kind_of_a_builtin_error_with_its_exit_code(
    kind: type[BilevelError], builtin: type[Exception], code: int
) -> None:
    (error,) = (error for error in all_errors() if type(error) is kind)
    assert isinstance(error, builtin)
    assert error.exit_code == code


def test_what_they_say_names_the_place_and_the_remedy() -> None:
    errors = {type(error): error for error in all_errors()}
    assert str(errors[NonFiniteError]) == "step 2: f is not finite; try less"
    assert str(errors[RankError]).startswith("step 1: rank 0 and 3 is gone")
    assert "resume=True" in str(errors[RankError])
    assert str(errors[RunInterruptedError]) == "interrupted by SIGTERM after step 3; the state is saved"
    assert "start again" in str(errors[WorkerError])
