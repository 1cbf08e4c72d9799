"""The page on what can go wrong is true: its examples run as printed."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "wrong.md").read_text()
NUMBER = r"-?\d+\.?\d*(?:e[-+]\d+)?"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def test_examples_print_what_the_page_says() -> None:
    names = dict[str, Any]()
    for code, expected in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, flags=re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "wrong.md", "exec"), names)  # noqa: S102 - our own text
        assert re.sub(NUMBER, "#", out.getvalue()) == re.sub(NUMBER, "#", expected)
        ours, theirs = ([float(x) for x in re.findall(NUMBER, text)] for text in (out.getvalue(), expected))
        assert ours == pytest.approx(theirs, rel=2e-2, abs=0.011)


def test_every_row_of_the_table_leads_to_a_section() -> None:
    titles = {_anchor(title) for title in re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)}
    assert set(re.findall(r"\]\(#(.*?)\)", PAGE)) == titles


def test_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (DOCS / link).exists(), link
