"""What every study gives."""

from pathlib import Path

from bome_studies.study import Claim, decided, findings_of


def test_the_smoke_preset_leaves_every_claim_open() -> None:
    claims = [Claim("", "", "", "", holds) for holds in (True, False, None)]
    assert [claim.holds for claim in decided(claims, "smoke")] == [None, None, None]
    assert [claim.holds for claim in decided(claims, "quick")] == [True, False, None]


def test_the_notes_of_the_file_stand_between_those_of_the_runs(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# T\n\n## about\nAbout it.\n\n## notes\n- One.\n- Two.\n")
    claim = Claim("", "", "", "", True)
    module = str(tmp_path / "study.py")
    findings = findings_of(module, "Title", "smoke", [], [claim], [], before=["First."], after=["Last."])
    assert (findings.title, findings.about) == ("Title", "About it.")
    assert findings.notes == ("First.", "One.", "Two.", "Last.")
    assert findings.claims[0].holds is None
