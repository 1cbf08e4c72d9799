"""What the docstrings say, for the tables of `bome ls`."""

import inspect
import re
import sys


def first_line(text: str | None) -> str:
    """The summary line of a docstring, without its full stop."""
    return (text or "").strip().split("\n")[0].rstrip(".")


def module_line(thing: type | object) -> str:
    """The summary line of the module that something is defined in."""
    module = sys.modules[inspect.getmodule(thing).__name__]  # type: ignore[union-attr]
    return first_line(module.__doc__)


def section(thing: object, title: str) -> dict[str, str]:
    """The entries of a Google-style section such as "Args" or "Attributes", by name."""
    entries: dict[str, str] = {}
    name, inside = "", False
    for text in (inspect.getdoc(thing) or "").split("\n"):
        if re.fullmatch(r"\w+:", text):
            inside = text == f"{title}:"
        elif inside and (found := re.fullmatch(r" {4}(\w+): (.*)", text)):
            name = found[1]
            entries[name] = found[2]
        elif inside and name and text.startswith(" " * 8):
            entries[name] += f" {text.strip()}"
        elif text.strip():
            inside = False
    return entries
