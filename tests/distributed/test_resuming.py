"""Ranks save one checkpoint together, any number of ranks continues it, and a killed rank is named."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import resuming

from bome.checkpoint import load_latest
from bome.experiments.matrix_launch import environment, torchrun

Folder = Callable[[str], Path]


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Folder:
    """The folder of a script of `resuming`, which is run once for all tests; its output is in `log`."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "resuming"
    shared.mkdir(exist_ok=True)

    def of(what: str) -> Path:
        folder = shared / what
        with (shared / f"{what}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                folder.mkdir()
                for kind in ("ddp", "fsdp"):
                    (folder / f"one-for-{kind}.digest").write_text(
                        resuming.go("one", folder / f"one-for-{kind}", resuming.HALF)
                    )
                script = [str(Path(resuming.__file__)), what, str(folder), str(folder / "out.json")]
                command = torchrun(2, *script, restarts=1 if what == "killed" else 0)
                done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=400)
                (folder / "log").write_text(done.stdout + done.stderr)
                assert done.returncode == 0, (folder / "log").read_text()[-3000:]
        return folder

    return of


def told(folder: Path, kind: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "out.json").read_text())[kind]
    return found


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_as_many_ranks_continue_bit_for_bit(kind: str, folder_of: Folder) -> None:
    found = told(folder_of("whole"), kind)
    assert found["continued"] == found["straight"]
    assert found["half"] != found["straight"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_one_process_reads_what_two_ranks_have_saved(kind: str, folder_of: Folder, tmp_path: Path) -> None:
    folder = folder_of("whole")
    newest = load_latest(folder / f"{kind}-straight" / "checkpoints")
    assert newest is not None
    assert newest.ranks == 2
    shutil.copytree(folder / f"{kind}-straight", tmp_path / "copy")
    assert resuming.go("one", tmp_path / "copy", resuming.STEPS) == told(folder, kind)["straight"]
    assert resuming.go("one", tmp_path / "copy", resuming.STEPS + 1) != told(folder, kind)["straight"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_ranks_read_what_one_process_has_saved(kind: str, folder_of: Folder) -> None:
    folder = folder_of("whole")
    assert told(folder, kind)["from one"] == (folder / f"one-for-{kind}.digest").read_text()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_damaged_file_of_a_rank_is_passed_over(kind: str, folder_of: Folder, tmp_path: Path) -> None:
    shutil.copytree(folder_of("whole") / f"{kind}-straight" / "checkpoints", tmp_path / "copy")
    newest = load_latest(tmp_path / "copy")
    assert newest is not None
    victim = newest.path / "tensors.safetensors"
    data = bytearray(victim.read_bytes())
    data[-3] ^= 1
    victim.write_bytes(data)
    with pytest.warns(UserWarning, match="checksum mismatch in tensors.safetensors"):
        older = load_latest(tmp_path / "copy")
    assert older is not None
    assert older.step < newest.step


def test_a_killed_ddp_rank_is_named_with_the_step_within_15_seconds(folder_of: Folder) -> None:
    folder = folder_of("killed")
    assert f"step {resuming.KILLED_AT - 1}: rank 1 is gone" in (folder / "log").read_text()
    assert float((folder / "ended").read_text()) - float((folder / "killed").read_text()) <= 15


def test_a_restarted_ddp_group_ends_bit_for_bit_where_an_undisturbed_one_does(folder_of: Folder) -> None:
    undisturbed = told(folder_of("whole"), "ddp")["straight"]
    assert json.loads((folder_of("killed") / "out.json").read_text()) == undisturbed


def test_the_first_rank_alone_writes_the_history_of_ddp_ranks(folder_of: Folder) -> None:
    lines = (folder_of("whole") / "ddp-straight" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 10, resuming.STEPS]
