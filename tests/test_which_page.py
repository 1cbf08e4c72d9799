"""The page that says which method is for what: its links lead to evidence, and its names are names."""

import re
from pathlib import Path

from bome.cli import main
from bome.runs.names import METHODS

PAGE = Path(__file__).parent.parent / "docs" / "which.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")][2:]


def test_every_line_has_a_problem_something_to_take_and_evidence() -> None:
    assert len(ROWS) > 10
    for row in ROWS:
        _, take, measured = row
        assert "`" in take
        links = re.findall(r"\]\(([^)#]+)\)", measured)
        assert links
        assert all((PAGE.parent / link).exists() for link in links), links


def test_what_is_to_be_taken_exists() -> None:
    for _, take, measured in ROWS:
        for name in re.findall(r"`([^`]+)`", take + measured):
            of_command = name.startswith("bome ") and name.split()[1] in main.verbs()
            known = name in METHODS or name.partition("+")[2] in METHODS or name.split(":")[0] in METHODS
            assert of_command or known or name in ("mer", "HyperCleaner", "RowSGD", "bome.solve", "solve"), name
