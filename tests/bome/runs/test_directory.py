"""What a run leaves in its directory comes back, is repeated in place when it has ended, and is nobody else's."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bome.errors import NonFiniteError, ProblemError, StorageError
from bome.loop import SAVE_EVERY
from bome.runs import directory
from bome.runs.directory import Config, configure, default_folder, prepare, read_config, read_summary
from bome.runs.plan import Plan, plan
from bome.storage.folder import Folder


def short(**values: Any) -> Plan:
    return plan("lls", "bome", {"steps": 4, **values}, 3)


def config_of(made: Plan, **options: Any) -> Config:
    return configure(made, **{"save_every": SAVE_EVERY, **options})


def finished(folder: Path, **options: Any) -> Config:
    made = short()
    config = config_of(made, **options)
    prepare(folder, config)
    directory.perform_into(folder, made, config)
    return config


def test_the_configuration_comes_back(tmp_path: Path) -> None:
    config = config_of(short(eta=0.9), oracle="func", log_every=2)
    prepare(tmp_path / "x", config)
    assert read_config(tmp_path / "x") == config
    assert directory.read_spec(tmp_path / "x") == config.spec
    assert config.settings["eta"] == 0.9
    assert config.about


def test_the_stored_command_is_complete_and_the_other_repeats_the_run_anywhere(tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    config = config_of(short(), oracle="func", log_every=3, save_every=7)
    assert config.command == "bome run lls --method bome --set steps=4 --seed 3 --oracle func"
    prepare(folder, config)
    stored = Folder(folder).config()
    assert stored.command == f"{config.command} --log-every 3 --save-every 7 --out '{folder}'"
    assert (stored.kind, stored.place) == ("run", os.getcwd())
    assert config_of(short()).command_in(Path("x")) == "bome run lls --method bome --set steps=4 --seed 3 --out x"


def test_a_finished_run_is_repeated_in_place(tmp_path: Path) -> None:
    finished(tmp_path / "x")
    first = directory.read_metrics(tmp_path / "x")
    (tmp_path / "x" / "notes.txt").write_text("mine")
    finished(tmp_path / "x", log_every=1)
    assert len(directory.read_metrics(tmp_path / "x")) >= len(first)
    assert (tmp_path / "x" / "notes.txt").read_text() == "mine"
    assert (read_summary(tmp_path / "x") or {})["status"] == directory.FINISHED


def test_an_unfinished_run_is_left_to_resume(tmp_path: Path) -> None:
    config = finished(tmp_path / "x")
    (tmp_path / "x" / "summary.json").unlink()
    with pytest.raises(ProblemError, match=r"x holds this run, unfinished: continue it with 'bome resume', or choose"):
        prepare(tmp_path / "x", config)
    for path in (tmp_path / "x" / "checkpoints").glob("step_*"):
        path.rename(tmp_path / path.name)
    prepare(tmp_path / "x", config)  # nothing had been saved yet


@pytest.mark.parametrize(
    ("values", "words"), [({"eta": 0.9}, "another run"), ({}, "a sweep, not a run")], ids=["settings", "kind"]
)
def test_another_run_or_verb_is_refused(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    finished(tmp_path / "x")
    if not values:
        Folder(tmp_path / "x").configure("sweep", {}, "bome sweep")
        with pytest.raises(ProblemError, match=r"x holds a sweep, not a run$"):
            read_config(tmp_path / "x")
    with pytest.raises(ProblemError, match=f"x holds {words}.*: choose another --out"):
        prepare(tmp_path / "x", config_of(short(**values)))
    assert read_summary(tmp_path / "x") is not None


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    finished(tmp_path / "x")
    path = tmp_path / "x" / "config.json"
    good = json.loads(path.read_text())
    changes: list[dict[str, Any]] = [{"spec": {}}, {"details": {}}, {"details": {**good["details"], "oracle": "magic"}}]
    for change in changes:
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(StorageError, match=r"config.json is damaged: it is not the configuration of a run"):
            read_config(tmp_path / "x")
    (tmp_path / "x" / "summary.json").write_text("{}")
    with pytest.raises(StorageError, match=r"summary.json is damaged: it is not the summary of a run"):
        read_summary(tmp_path / "x")


def test_a_run_that_diverges_says_so_in_its_summary(tmp_path: Path) -> None:
    made = plan("lls", "bome", {"steps": 50, "outer_lr": 1e200}, 0)
    config = config_of(made)
    prepare(tmp_path / "x", config)
    with pytest.raises(NonFiniteError):
        directory.perform_into(tmp_path / "x", made, config)
    summary = read_summary(tmp_path / "x") or {}
    assert summary["status"] == directory.DIVERGED
    assert "is not finite" in summary["reason"]


def test_clearing_removes_what_a_run_leaves_and_only_that(tmp_path: Path) -> None:
    finished(tmp_path / "x")
    (tmp_path / "x" / "notes.txt").write_text("mine")
    directory.clear(tmp_path / "x")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["notes.txt"]


def test_default_folders_tell_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_of(plan("lls", "bome:preconditioned", {"steps": 4}, 3))
    first = default_folder(config)
    assert first == Path("runs/lls-bome-preconditioned-steps=4-seed3")
    prepare(first, config)
    assert default_folder(config) == Path("runs/lls-bome-preconditioned-steps=4-seed3-2")


def test_a_collection_lists_the_runs_of_a_folder(tmp_path: Path) -> None:
    for name in ("b", "a"):
        prepare(tmp_path / name, config_of(short()))
    assert directory.read_collection(tmp_path).runs == ["a", "b"]
    collection = directory.Collection("title", "about", "bome demo", ["b"])
    directory.write_collection(tmp_path, collection)
    assert directory.read_collection(tmp_path) == collection
    (tmp_path / "collection.json").write_text('{"title": "", "about": "", "command": "", "runs": ["../x"]}')
    with pytest.raises(StorageError, match=r"collection.json is damaged: it is not a list of runs"):
        directory.read_collection(tmp_path)
