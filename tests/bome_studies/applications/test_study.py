"""The page of the study of the applications, from a few evaluations."""

import json
from pathlib import Path

from bome.cli.main import execute
from bome_studies.applications.study import APPLICATIONS
from bome_studies.study import LongStudy


def test_a_run_leaves_a_page_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    order = ["bench", "applications", "--preset", "smoke", "--record", str(record), "--quiet"]
    assert execute([*order, "--out", str(tmp_path)]) == 0
    assert len(record.read_text().splitlines()) == 12
    told = json.loads((tmp_path / "findings.json").read_text())
    assert all(claim["holds"] is None for claim in told["claims"])
    assert [figure["name"] for s in told["sections"] for figure in s["figures"]] == ["worth", "live"]
    table = next(s["table"] for s in told["sections"] if s["title"] == "What v is worth")
    assert table["header"] == ["", "anil", "distillation", "saddle"]
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert list(rows) == ["start", "itd", "bome", "ogda"]
    assert rows["ogda"][:2] == ["refused", "refused"]
    assert not any("not been run" in note for note in told["notes"])
    removed = next((tmp_path / "parts" / "saddle").glob("itd*.json"))
    removed.unlink()
    assert isinstance(APPLICATIONS, LongStudy)
    assert execute(["report", str(tmp_path)]) == 0
    assert any("1 trials have not been run" in n for n in json.loads((tmp_path / "findings.json").read_text())["notes"])
    assert not removed.exists()
