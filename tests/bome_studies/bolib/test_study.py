"""The page of the study of BOLIB, from a few evaluations."""

import json
from pathlib import Path

from bome.cli.main import execute


def test_a_run_leaves_a_page_with_figures_tables_and_all_problems(tmp_path: Path) -> None:
    assert execute(["bench", "bolib", "--preset", "smoke", "--out", str(tmp_path), "--quiet"]) == 0
    told = json.loads((tmp_path / "findings.json").read_text())
    assert all(claim["holds"] is None for claim in told["claims"])
    figures = [figure["name"] for section in told["sections"] for figure in section["figures"]]
    assert figures == ["profile", "halves", "chart", "verdicts"]
    assert [row[0] for row in told["sections"][-1]["table"]["rows"]] == ["FalkLiu1995", "Bard1984b"]
    page = (tmp_path / "report.html").read_text()
    assert "from bome_studies.bolib.score import score" in page
    assert "−2.1962" in page  # what BOLIB prints
