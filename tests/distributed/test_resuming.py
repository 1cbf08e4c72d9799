"""Ranks save one checkpoint together, any number of ranks continues it, and a killed rank is named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bome.storage.checkpoint import load_latest
from tests.distributed import resuming, started


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return started.fast(tmp_path_factory)


@pytest.fixture(scope="session")
def saves(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((started.saves(tmp_path_factory) / "saves.json").read_text())
    return found


def told(folder: Path, what: str) -> Any:
    return json.loads((folder / f"{what}.json").read_text())


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_as_many_ranks_continue_bit_for_bit(kind: str, folder: Path) -> None:
    found = told(folder, "whole")[kind]
    assert found["continued"] == found["straight"]
    straight, last = (
        json.loads((folder / f"{kind}-{how}" / "metrics.jsonl").read_text().splitlines()[-1])
        for how in ("straight", "continued")
    )
    assert last["n_g"] == resuming.STEPS * 4  # T + 2 a step, also of those before it was continued
    assert last["F"] == straight["F"]
    assert found["continued"] != found["from one"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_one_process_reads_what_two_ranks_have_saved(kind: str, folder: Path, tmp_path: Path) -> None:
    newest = load_latest(folder / f"{kind}-straight" / "checkpoints")
    assert newest is not None
    assert newest.ranks == 2
    shutil.copytree(folder / f"{kind}-straight", tmp_path / "copy")
    assert resuming.go("one", tmp_path / "copy", resuming.STEPS) == told(folder, "whole")[kind]["straight"]
    assert resuming.go("one", tmp_path / "copy", resuming.STEPS + 1) != told(folder, "whole")[kind]["straight"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_ranks_read_what_one_process_has_saved(kind: str, folder: Path) -> None:
    assert told(folder, "whole")[kind]["from one"] == (folder / f"one-for-{kind}.digest").read_text()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_ranks_keep_the_same_v_as_one_process_and_train_theta_alike(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    """On the same samples, so that F(v) of each v is the same, too."""
    one = resuming.smooth("one", tmp_path / "run", resuming.STEPS, keep_best=True)
    assert told(folder, "whole")[kind]["kept"] == pytest.approx(one.entries, abs=1e-5)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_damaged_file_of_a_rank_is_passed_over(kind: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / f"{kind}-straight" / "checkpoints", tmp_path / "copy")
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


def test_a_killed_ddp_rank_is_named_with_the_step_within_15_seconds(folder: Path) -> None:
    assert f"step {resuming.KILLED_AT - 1}: rank 1 is gone" in (folder / "killed.log").read_text()
    assert float((folder / "killed" / "ended").read_text()) - float((folder / "killed" / "killed").read_text()) <= 15


def test_a_restarted_ddp_group_ends_bit_for_bit_where_an_undisturbed_one_does(folder: Path) -> None:
    assert told(folder, "killed") == told(folder, "whole")["ddp"]["straight"]


def test_the_first_rank_alone_writes_the_history_of_ddp_ranks(folder: Path) -> None:
    lines = (folder / "ddp-straight" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, resuming.STEPS]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_four_ranks_read_bit_for_bit_what_two_have_saved(kind: str, folder: Path) -> None:
    assert told(folder, "wider")[kind]["read"] == told(folder, "whole")[kind]["smooth half"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_run_of_two_ddp_or_fsdp_ranks_that_four_continue_ends_where_that_of_one_process_does(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    """On the same samples: v, θ, the state of the optimisers and schedules all go on."""
    one = resuming.smooth("one", tmp_path / "run", resuming.STEPS)
    half = resuming.smooth("one", tmp_path / "half", resuming.HALF)
    found = told(folder, "wider")[kind]["continued"]
    assert found == pytest.approx(one.entries, abs=1e-5)
    assert found != pytest.approx(half.entries, abs=1e-2)


@pytest.mark.slow
def test_a_kill_at_any_moment_of_a_save_of_two_ranks_leaves_one_of_the_two_checkpoints(
    saves: list[dict[str, Any]],
) -> None:
    def state(version: int) -> list[Any]:
        shared = [[[float(version)] * 3] * 4, [float(version)] * 3, version]
        return [[*shared, [10.0 * rank + version] * 2] for rank in (0, 1)]

    for save in saves:
        lived = save["codes"] == [0, 0]
        assert save["read"] in ([state(2)] if lived else [state(1), state(2)]), save
        assert save["next"] == state(3), save
    for victim, fewest in ((0, 15), (1, 4)):  # calls of the operating system
        killed = [save for save in saves if save["victim"] == victim and save["codes"] != [0, 0]]
        assert len(killed) >= 2 * fewest
        assert all(save["codes"][victim] == -9 for save in killed)
        assert any(save["read"] == state(1) for save in killed)
    assert any(save["read"] == state(2) for save in saves if save["codes"][0] == -9)


@pytest.mark.slow
def test_the_next_save_of_two_ranks_removes_what_a_killed_one_has_left(saves: list[dict[str, Any]]) -> None:
    assert all(name.removeprefix("step_").isdigit() for save in saves for name in save["names"])
