"""The page of the matrix, and which processes are launched for it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bome_studies.matrix import study
from bome_studies.matrix.cells import Attempt
from bome_studies.matrix.study import GROUPS, MATRIX, findings

ATTEMPTS = [
    Attempt("plain", "bome", works=True, error=1e-8),
    Attempt("compile", "itd", works=False, message="not here"),
    Attempt("lora", "itd", works=False, message="not here"),
]


def test_a_refusal_is_told_once_with_all_its_places() -> None:
    told = findings({("cells", 1): {"attempts": [asdict(one) for one in ATTEMPTS]}}, "quick")
    assert told.notes[-1] == "Refused in compile, lora: “not here”"
    assert "after 3 steps" in told.notes[0]
    assert [row.mean for row in told.rows] == [1e-8]


def test_groups_that_were_launched_are_not_launched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []

    def launch(what: str, ranks: int, out: Path) -> Any:
        launched.append((what, ranks))
        return {"attempts": [asdict(one) for one in ATTEMPTS], "measures": {}}

    monkeypatch.setattr(study, "launch", launch)
    first = MATRIX.run("smoke", tmp_path, lambda *_: None)
    assert MATRIX.run("smoke", tmp_path, lambda *_: None) == first
    assert launched == [("cells", 1)]
    assert {group.ranks for group in GROUPS["quick"]} == {1, 2, 4}
