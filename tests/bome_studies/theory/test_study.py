"""The whole theory study in a few seconds."""

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bome_studies.theory import trials as trials
from bome_studies.theory.protocol import sweeps
from bome_studies.theory.study import THEORY


def test_smoke_runs_all_of_it_and_does_not_run_finished_parts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, int]] = []
    findings = THEORY.run("smoke", tmp_path, lambda *args: seen.append(args))
    made = sweeps("smoke")
    assert [done for _, done, _ in seen] == list(range(1, len(made) + 1))
    assert len(findings.sections) == 8
    assert all(claim.holds is None for claim in findings.claims)
    assert all(math.isfinite(row.mean) and "theory" in row.command for row in findings.rows)
    names = [drawing.name for section in findings.sections for drawing in section.figures]
    assert len(set(names)) == len(names)
    for section in findings.sections:
        for drawing in section.figures:
            ElementTree.fromstring(drawing.svg)  # noqa: S314 - made here

    def again(sweep: object) -> None:
        raise AssertionError("ran again")

    monkeypatch.setattr(trials, "perform", again)
    assert THEORY.run("smoke", tmp_path, lambda *_: None) == findings
