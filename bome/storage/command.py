"""The command that repeats what made a folder, as it can be typed in a shell."""

import shlex
from collections.abc import Mapping
from typing import Any


def command_line(verb: str, *arguments: Any, **options: Any) -> str:
    """A command of bome.

    Args:
        verb: its name.
        arguments: what stands before the options.
        options: by name, with _ for -; a list is an option that is repeated, a mapping one of KEY=VALUE, True one
            without a value. What is None, False or empty is left out.
    """
    words = ["bome", verb, *map(str, arguments)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [word for text in _texts(value) for word in (option, text)]
    return shlex.join(words)


def _texts(value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if isinstance(value, Mapping):
        return [f"{key}={item}" for key, item in value.items()]
    return [str(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
