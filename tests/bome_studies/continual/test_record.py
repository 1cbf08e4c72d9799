"""The record of finished runs: what it takes over, keeps and refuses."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bome.cli.main import execute
from bome.continual.run import Spec, Summary, ended, learn
from bome.storage.folder import Folder
from bome_studies.continual import record, study
from bome_studies.continual.study import one_part, place
from tests.support.continual_results import DIGITS, SMALL

SPEC = Spec(DIGITS, "er", 0).to_dict()
SUMMARY = asdict(Summary("finished", "", 1, {}, 1.0, [1.0], {}, {}, [[1.0]]))
LINE: dict[str, Any] = {"place": "a", "version": "1", "spec": SPEC, "summary": SUMMARY}

WRONG: tuple[dict[str, Any], ...] = (
    {"status": ""},
    {"status": "diverged", "reason": None},
    {"observed": 5},
    {"observed": {"acc": "x"}},
    {"matrix": []},
    {"matrix": "x"},
    {"matrix": [[1.0], [1.0, 2.0]]},
    {"matrix": [["x"]]},
    {"seconds_by_task": None},
    {"steps": None},
    {"f": None},
)
"""Parts that spoil a summary."""


def recording(path: Path, folder: Path) -> int:
    """Carry out the smallest preset with a record; its exit code."""
    return execute(
        ["reproduce", "continual", "--preset", "smoke", "--record", str(path), "--out", str(folder), "--quiet"]
    )


def test_the_finished_runs_can_be_reported_and_kept_in_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    folder, path = tmp_path / "first", tmp_path / "runs.jsonl"
    Folder(folder).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    (folder / "parts").mkdir()
    assert execute(["report", str(folder)]) == 2
    assert "no run in" in capsys.readouterr().err
    one_part("smoke", DIGITS, "ctn+bome", 1, folder)  # without its seed 0 it cannot be compared seed by seed
    one_part("smoke", DIGITS, "ctn+itd", 0, folder)
    assert execute(["report", str(folder), "--docs", str(tmp_path / "docs")]) == 0
    rows = json.loads((tmp_path / "docs" / "continual.json").read_text())
    assert {row["method"] for row in rows} == {"ctn+itd"}
    told = (tmp_path / "docs" / "continual.md").read_text()
    assert "made before all runs had ended" in told
    assert f"Made by `bome reproduce continual --preset smoke --docs {tmp_path / 'docs'}`" in told
    assert (
        "ended so far: offline (selected): 0 of 1; ctn+bome (published): 0 of 2; other settings of BOME: 0 of 1" in told
    )

    assert recording(path, folder) == 0
    assert len(path.read_text().splitlines()) == 2 + 4 + 1  # choosing, seeds, ablation
    monkeypatch.setattr("bome.continual.run._Run", None)  # all that follows is read
    assert recording(path, tmp_path / "second") == 0
    for name in ("results.json", "findings.json"):
        assert (tmp_path / "second" / name).read_text() == (folder / name).read_text()
    assert "ended so far" not in (folder / "findings.json").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        json.dumps({**LINE, "place": "../x"}),
        json.dumps({**LINE, "place": "/x"}),
        json.dumps({**LINE, "place": ""}),
        json.dumps({**LINE, "spec": 1}),
    ],
)
def test_a_damaged_record_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(text + "\n")
    assert recording(path, tmp_path / "new") == 4
    assert f"{path}:1: not a run of a record" in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "wrong", [{"spec": {}}, {"summary": {"status": ""}}, *({"summary": {**SUMMARY, **part}} for part in WRONG)]
)
def test_a_damaged_run_in_a_record_is_refused_before_anything_is_written(
    wrong: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, **wrong}) + "\n")
    assert recording(path, tmp_path / "new") == 4
    assert f"{path}:2 is damaged" in capsys.readouterr().err.replace("\n", "")
    assert not list((tmp_path / "new" / "parts").rglob("config.json"))


def test_runs_of_a_record_with_other_settings_than_todays_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Spec(DIGITS, "er", 0)
    learn(run, place(tmp_path / "old", run))
    path = tmp_path / "runs.jsonl"
    record.keep(tmp_path / "old", path)
    line = json.loads(path.read_text())
    elsewhere = {**line, "place": f"{DIGITS}/gem-seed0"}
    spec = line["spec"]
    changed = {**line, "spec": {**spec, "settings": {**spec["settings"], "memory": 40}}}
    gone = {**line, "spec": {**spec, "strategy": "none"}}
    odd = [{**line, "spec": {**spec, **wrong}} for wrong in ({"set": {"theta_lr": None}}, {"part": "test"})]
    for wrong in (elsewhere, changed, gone, *odd):
        path.write_text(json.dumps(wrong) + "\n")
        assert record.take_over(path, tmp_path / "new") == (0, 1, 0)
        assert not (tmp_path / "new").exists()
    path.write_text(json.dumps(line) + "\n")
    assert record.take_over(path, tmp_path / "new") == (1, 0, 0)


def test_an_interrupted_experiment_keeps_what_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    folder, path = tmp_path / "first", tmp_path / "runs.jsonl"
    Folder(folder).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    one_part("smoke", DIGITS, "ctn+itd", 0, folder)

    def interrupted(part: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "_perform", interrupted)
    assert recording(path, folder) == 130
    told = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome resume {folder}" in told
    stored = json.loads((folder / "config.json").read_text())
    assert stored["command"] == f"bome reproduce continual --preset smoke --out {folder} --record {path}"
    assert [json.loads(line)["place"] for line in path.read_text().splitlines()] == [f"{DIGITS}/ctn+itd-seed0"]


def test_a_record_loses_nothing_to_a_folder_with_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    first, second, path = tmp_path / "first", tmp_path / "second", tmp_path / "runs.jsonl"
    spec, other, done = Spec(DIGITS, "ctn+itd", 0), Spec(DIGITS, "er", 0), Spec(DIGITS, "mer", 0)
    for each_one in (spec, other, done):
        learn(each_one, place(first, each_one))
    record.keep(first, path)
    path.write_text(path.read_text() + "\n")
    before = path.read_text()
    Folder(place(second, spec)).claim("continual", spec.to_dict(), "")  # begun, and killed
    changed = replace(other, values={"theta_lr": 0.5}).to_dict()
    Folder(place(second, other)).claim("continual", changed, "")  # begun with other settings
    learn(replace(done, values={"theta_lr": 0.5}), place(second, done))  # ended with other settings
    record.keep(second, path)
    assert path.read_text() == before.rstrip("\n") + "\n"
    assert record.take_over(path, second) == (1, 0, 2)
    assert ended(spec, place(second, spec)) == ended(spec, place(first, spec))
    assert ended(other, place(second, other)) is None


def test_only_this_experiment_has_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["reproduce", "toys", "--record", str(tmp_path / "x"), "--out", str(tmp_path / "new")]) == 2
    assert "--record is for continual only" in capsys.readouterr().err
    assert execute(["report", str(tmp_path), "--docs", str(tmp_path)]) == 2
    assert "--docs is for studies" in capsys.readouterr().err
