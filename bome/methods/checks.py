"""Refusals of settings that cannot work, shared by the methods; those of inner maps are in `bome.inner`."""

import typing
from typing import Any

from bome.errors import ProblemError


def check_terms(name: str, value: int, least: int = 1) -> None:
    """Refuse a number of products, steps or batches that is not a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ProblemError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_choice(name: str, value: str, choices: Any) -> None:
    """Refuse a word that is not one of a `Literal`."""
    known = typing.get_args(choices)
    if value not in known:
        raise ProblemError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
