"""A folder belongs to one command: its own work stays, everything else is refused in one line."""

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from bome.errors import ProblemError, StorageError
from bome.storage.folder import Config, Folder, free_place
from tests.support.kills import killed_at
from tests.support.states import dead_pid

SPEC = {"task": "quadratic", "set": {"lr": 0.1, "steps": 3}}
COMMAND = "bome run quadratic --set lr=0.1 --out 'my run'"


def claim(path: Path, kind: Any = "run", spec: dict[str, Any] = SPEC) -> str:
    return Folder(path).claim(kind, spec, COMMAND)


def test_a_folder_is_new_then_the_same_then_finished(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new" / "x")
    assert claim(folder.path) == "new"
    config = folder.config()
    assert config == Config("run", SPEC, COMMAND, os.getcwd(), config.version)
    assert (folder.holds("run", SPEC), folder.holds("sweep", SPEC), folder.holds("run", {})) == (True, False, False)
    (folder.path / "checkpoint").write_text("work")
    assert folder.summary() is None
    assert claim(folder.path, spec={"set": {"steps": 3, "lr": 0.1}, "task": "quadratic"}) == "same"
    folder.finish({"f": math.nan, "status": "finished"})
    assert folder.summary() == {"f": None, "status": "finished"}
    before = (folder.path / "config.json").read_bytes()
    assert claim(folder.path) == "finished"
    assert (folder.path / "config.json").read_bytes() == before
    assert (folder.path / "checkpoint").read_text() == "work"


def test_the_command_is_that_of_the_last_one_who_worked_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(tmp_path / "x")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert Folder(tmp_path / "x").claim("run", SPEC, "bome run --out ../x") == "same"
    config = Folder(tmp_path / "x").config()
    assert (config.command, config.place) == ("bome run --out ../x", str(tmp_path / "elsewhere"))


def refusal(path: Path, *args: Any) -> str:
    """The message of a claim that must be refused without a change."""
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    with pytest.raises(ProblemError) as error:
        claim(path, *args)
    assert {each: each.read_bytes() for each in path.rglob("*") if each.is_file()} == before
    return str(error.value)


def test_what_belongs_to_others_is_refused(tmp_path: Path) -> None:
    file, foreign, folder = tmp_path / "file", tmp_path / "foreign", tmp_path / "x"
    file.write_text("mine")
    assert refusal(file) == f"{file} is a file: choose another --out"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    assert refusal(foreign) == f"{foreign} is not empty and holds nothing of bome's: choose another --out"
    claim(folder)
    assert refusal(folder, "sweep") == f"{folder} holds a run, not a sweep: choose another --out"
    other = "holds another run, with other inputs or settings: choose another --out"
    assert refusal(folder, "run", {**SPEC, "task": "lls"}) == f"{folder} {other}"
    assert refusal(folder, "run", {**SPEC, "set": {"lr": 0.1, "steps": 3.0}}) == f"{folder} {other}"


def test_a_verb_of_another_package_has_folders_of_its_own_kind(tmp_path: Path) -> None:
    assert claim(tmp_path, "prices") == "new"
    assert Folder(tmp_path).config().kind == "prices"
    assert refusal(tmp_path, "run") == f"{tmp_path} holds a result of 'bome prices', not a run: choose another --out"


def test_strays_of_dead_processes_and_locks_do_not_count(tmp_path: Path) -> None:
    """As a kill during the very first write leaves them."""
    dead = dead_pid()
    for name in ("lock", f"config.json.tmp-{dead}", f"step_00000001.old-{dead}", f"config.json.tmp-{os.getpid()}"):
        (tmp_path / name).write_text("half")
    assert Folder(tmp_path).is_free()
    assert claim(tmp_path) == "new"
    assert claim(tmp_path) == "same"


@pytest.mark.parametrize("name", ["config.json.tmp-x", "tmp-12", "lock.txt", "notes"])
def test_what_only_looks_like_a_stray_counts(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    assert "is not empty" in refusal(tmp_path)


def test_the_stray_of_a_process_at_work_counts(tmp_path: Path) -> None:
    (tmp_path / f"config.json.tmp-{os.getppid()}").write_text("half")
    assert "is not empty" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"model_type": "gpt2"}', b"[" * 200_000],
    ids=lambda content: str(content[:10]),
)
def test_a_damaged_config_or_summary_is_a_storage_error(tmp_path: Path, content: bytes) -> None:
    claim(tmp_path)
    if content != b"{}" and b"gpt2" not in content:  # as a summary these are as good as any object
        (tmp_path / "summary.json").write_bytes(content)
        with pytest.raises(StorageError, match=r"summary.json is damaged"):
            claim(tmp_path)
    (tmp_path / "config.json").write_bytes(content)
    for look in (lambda: claim(tmp_path), Folder(tmp_path).config):
        with pytest.raises(StorageError, match=r"config.json is damaged"):
            look()


@pytest.mark.parametrize("change", [{"kind": 3}, {"spec": []}, {"command": None}, {"more": 1}])
def test_a_config_of_wrong_types_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    claim(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StorageError, match=r"config.json is damaged: "):
        Folder(tmp_path).config()


def test_a_folder_without_config_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"is not a folder of bome: it has no config.json"):
        Folder(tmp_path).config()
    assert not Folder(tmp_path).holds("run", SPEC)


def test_a_free_place_is_new_empty_or_holds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = Path("runs") / "mix-a_b"
    assert free_place("mix-a/b") == base
    base.mkdir(parents=True)
    (base / f"config.json.tmp-{dead_pid()}").write_text("")
    assert free_place("mix-a/b") == base
    claim(base, "mix")
    assert free_place("mix-a/b", "mix", SPEC) == base
    second = base.with_name("mix-a_b-2")
    assert free_place("mix-a/b") == free_place("mix-a/b", "mix", {}) == free_place("mix-a/b", "run", SPEC) == second
    second.write_text("a file")
    (base / "config.json").write_text("damaged")
    assert free_place("mix-a/b", "mix", SPEC) == base.with_name("mix-a_b-3")


def test_a_kill_at_any_moment_leaves_a_folder_that_can_be_claimed(tmp_path: Path) -> None:
    states = []
    for n in itertools.count(1):
        place = tmp_path / str(n) / "x"

        def work(place: Path = place) -> None:
            claim(place)
            Folder(place).finish({"status": "finished"})

        killed = killed_at(n, work)
        states.append(claim(place))
        if not killed:
            break
    counts = [states.count(state) for state in ("new", "same", "finished")]
    assert all(counts)
    assert states == ["new"] * counts[0] + ["same"] * counts[1] + ["finished"] * counts[2]
