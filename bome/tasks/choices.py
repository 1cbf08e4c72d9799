"""Names that choose: variants and starting points."""

from collections.abc import Mapping
from typing import TypeVar

from bome.errors import ProblemError

T = TypeVar("T")


def choose(what: str, name: str, options: Mapping[str, T]) -> T:
    """The option of that name, or an error that lists the known ones; `what` is such as "variant of coreset"."""
    if name not in options:
        raise ProblemError(f"unknown {what}: {name!r}; known: {', '.join(options)}")
    return options[name]
