"""The prose of a study: `notes.md` beside its modules, a section for each place on the page where text is wanted."""

import re
from functools import cache
from pathlib import Path


def points(module: str, section: str, **values: object) -> tuple[str, ...]:
    """The paragraphs, or the points of the list, of a section, each as one line.

    Args:
        module: the `__file__` of a module beside `notes.md`.
        section: its title there, after "## ".
        values: what stands in the text for `{name}`; other braces stay.
    """
    return tuple(
        re.sub(r"\{([A-Za-z_]\w*)\}", lambda name: str(values[name[1]]), text) for text in _read(module)[section]
    )


def paragraph(module: str, section: str, **values: object) -> str:
    """The text of a section that is a single paragraph."""
    (text,) = points(module, section, **values)
    return text


@cache
def _read(module: str) -> dict[str, tuple[str, ...]]:
    """The sections by title."""
    _, *sections = Path(module).with_name("notes.md").read_text(encoding="utf-8").split("\n## ")
    return {title: _paragraphs(text) for title, _, text in (section.partition("\n") for section in sections)}


def _paragraphs(text: str) -> tuple[str, ...]:
    blocks = re.split(r"\n\s*\n|\n(?=- )", text.strip())
    return tuple(" ".join(block.removeprefix("- ").split()) for block in blocks if block.strip())
