"""Checks of names and numbers, and settings given as text: every refusal of this kind is worded here, once."""

import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

from bome.errors import ProblemError

T = TypeVar("T")

MOST_NAMES, FIRST_NAMES = 40, 12
"""So many names are listed in an error; of more of them only the first."""


def known(what: str, name: str, names: Iterable[str]) -> str:
    """The name, or an error that suggests the nearest of `names`; `what` is such as "task"."""
    names = list(names)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    shown = names if len(names) <= MOST_NAMES else [*names[:FIRST_NAMES], f"and {len(names) - FIRST_NAMES} more"]
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(shown)}"
    raise ProblemError(f"unknown {what} {name!r}; {hint}")


def choose(what: str, name: str, options: Mapping[str, T]) -> T:
    """The option of that name, or the error of `known`."""
    return options[known(what, name, options)]


def field_types(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if not f.name.startswith("_")}


def parse(key: str, text: Any, kind: Any) -> Any:
    """The value of a setting from its text, as its type wants it; a value of that type stays as it is."""
    if typing.get_origin(kind) is Literal:
        if text not in typing.get_args(kind):
            raise ProblemError(f"{key} must be one of {', '.join(map(str, typing.get_args(kind)))}, got {text!r}")
        return text
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if str(text).lower() not in ("true", "false"):
            raise ProblemError(f"{key} must be true or false, got {text!r}")
        return str(text).lower() == "true"
    try:
        if kind is int and float(text) != int(float(text)):
            raise ValueError
        return int(float(text)) if kind is int else kind(text)
    except (TypeError, ValueError, OverflowError):
        wanted = {int: "a whole number", float: "a number"}.get(kind, "text")
        raise ProblemError(f"{key} must be {wanted}, got {text!r}") from None


def check_positive(name: str, value: float) -> None:
    """Refuse what is not a positive, finite number, such as a step size."""
    if not isinstance(value, Real) or not 0 < value < math.inf:
        raise ProblemError(f"{name} must be a positive number, got {value!r}")


def check_nonnegative(name: str, value: float) -> None:
    """Refuse what is not a finite number of at least 0."""
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise ProblemError(f"{name} must be 0 or a positive number, got {value!r}")


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ProblemError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_decay(name: str, value: float) -> None:
    """Refuse what is not in [0, 1), such as a momentum."""
    if not isinstance(value, Real) or not 0 <= value < 1:
        raise ProblemError(f"{name} must be in [0, 1), got {value!r}")


def check_share(name: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not isinstance(value, Real) or not 0 < value < 1:
        raise ProblemError(f"{name} must be between 0 and 1, got {value!r}")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse what is not one of the values of a `Literal`."""
    values = typing.get_args(choices)
    if value not in values:
        raise ProblemError(f"{name} must be one of {', '.join(map(repr, values))}, got {value!r}")


def check_arguments(name: str, function: Callable[..., Any], returns: str) -> None:
    """Refuse what cannot be called with (v, theta, batch), as far as it tells how it can be called."""
    if not callable(function):
        raise ProblemError(f"{name} must be a function (v, theta, batch) -> {returns}, got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of builtins nothing is known
        return
    try:
        signature.bind("v", "theta", "batch")
    except TypeError:
        raise ProblemError(f"{name} must take three arguments (v, theta, batch), but it takes {signature}") from None
