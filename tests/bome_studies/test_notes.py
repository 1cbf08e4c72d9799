"""The prose of studies."""

from pathlib import Path

import pytest

from bome_studies.notes import paragraph, points

TEXT = """# Title

## about
A text of
two lines with {count} and K^{-1/2}, in {0.1, 0.5}.

## notes
- First
  point.
- Second: {count}.

Third, a paragraph.
"""


def test_sections_are_found_and_filled_in(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(TEXT)
    module = str(tmp_path / "study.py")
    assert paragraph(module, "about", count=3) == "A text of two lines with 3 and K^{-1/2}, in {0.1, 0.5}."
    assert points(module, "notes", count="four") == ("First point.", "Second: four.", "Third, a paragraph.")
    with pytest.raises(KeyError):
        points(module, "notes")  # a value is missing
    with pytest.raises(KeyError):
        points(module, "nothing")
