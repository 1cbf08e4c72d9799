"""`bome resume`: an interrupted run ends as if it had never been interrupted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bome.cli import resume, run
from bome.cli.main import execute
from bome.runs import directory
from bome.storage import checkpoint

START = "import sys; from bome.cli.main import main; sys.argv = ['bome', *sys.argv[1:]]; main()"
STEPS = 300
LONG = ["run", "coreset", "--set", f"steps={STEPS}", "--set", "momentum=0.5", "--set", "decay=10", "--log-every", "1"]
TIMING = {"seconds"}


@pytest.fixture(scope="module", autouse=True)
def _no_page() -> Iterator[None]:
    """Reports have tests of their own; drawing takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, resume):
            patch.setattr(module, "write_report", _touch)
        yield


def _touch(folder: Path) -> Path:
    page = folder / directory.REPORT
    page.touch()
    return page


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, _no_page: None) -> Path:
    """The run without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "x"
    assert execute([*LONG, "--quiet", "--out", str(folder)]) == 0
    return folder


def state(folder: Path) -> dict[str, Any]:
    found = checkpoint.load_latest(folder / "checkpoints")
    assert found is not None
    return {key: value for key, value in found.state.items() if key not in TIMING}


def equal(a: Any, b: Any) -> bool:
    """Bitwise."""
    if isinstance(a, torch.Tensor):
        return bool(a.dtype == b.dtype and a.numpy().tobytes() == b.numpy().tobytes())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def rows(folder: Path) -> list[str]:
    kept = [{key: value for key, value in row.items() if key not in TIMING} for row in directory.read_metrics(folder)]
    return [repr(row) for row in kept]  # as text NaN equals NaN


def interrupt(folder: Path, number: int, after: int) -> tuple[int, str]:
    """Start the run as a process of its own and send it a signal once some rows are logged."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *LONG, "--out", str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    metrics, deadline = folder / "metrics.jsonl", time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= after:
            break
        time.sleep(0.005)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize(("number", "after"), [(signal.SIGINT, 1), (signal.SIGTERM, 40), (signal.SIGINT, 150)])
def test_an_interrupted_run_continues_to_the_same_bits(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str], number: int, after: int
) -> None:
    folder = tmp_path / "x"
    code, errors = interrupt(folder, number, after)
    assert code == 128 + number
    assert errors.startswith(f"error: interrupted by {signal.Signals(number).name} after step ")
    assert errors.rstrip().endswith(f"continue with: bome resume {folder}")
    assert errors.count("\n") == 1
    saved = checkpoint.load_latest(folder / "checkpoints")
    assert saved is not None
    assert after <= saved.step < STEPS
    assert not (folder / "summary.json").exists()
    assert execute(["resume", str(folder)]) == 0
    assert f"continuing from step {saved.step}" in capsys.readouterr().err
    assert equal(state(folder), state(whole))
    assert rows(folder) == rows(whole)
    mine, theirs = (directory.read_summary(each) or {} for each in (folder, whole))
    assert {**mine, "seconds": 0} == {**theirs, "seconds": 0}


def test_a_damaged_summary_is_told(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x"
    shutil.copytree(whole, folder)
    (folder / "summary.json").write_text('{"a": 1}')
    for verb in ("resume", "report"):
        assert execute([verb, str(folder)]) == 4
        assert "summary.json is damaged" in capsys.readouterr().err.replace("\n", "")


def test_a_finished_run_says_so(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (whole / "summary.json").read_bytes()
    assert execute(["resume", str(whole)]) == 0
    printed = capsys.readouterr()
    assert "finished already" in printed.err
    assert "report:" in printed.out
    assert execute(["resume", str(whole), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(before)
    assert (whole / "summary.json").read_bytes() == before


def short(folder: Path, *more: str) -> None:
    assert (
        execute(["run", "lls", "--set", "steps=10", "--save-every", "4", "--quiet", "--out", str(folder), *more]) == 0
    )


def test_a_finished_run_without_a_page_gets_one(tmp_path: Path) -> None:
    short(tmp_path / "x")
    (tmp_path / "x" / "report.html").unlink()
    assert execute(["resume", str(tmp_path / "x"), "--quiet"]) == 0
    assert (tmp_path / "x" / "report.html").exists()


def test_more_steps_make_a_run_longer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    assert execute(["resume", str(tmp_path / "x"), "--set", "steps=15", "--quiet"]) == 0
    assert execute(["run", "lls", "--set", "steps=15", "--quiet", "--out", str(tmp_path / "y")]) == 0
    assert equal(state(tmp_path / "x"), state(tmp_path / "y"))
    assert rows(tmp_path / "x") == rows(tmp_path / "y")
    assert directory.read_config(tmp_path / "x").set == {"steps": 15}
    assert execute(["resume", str(tmp_path / "x"), "--set", "steps=3"]) == 2
    assert "steps=3 is less than the 15 steps already done" in capsys.readouterr().err


def test_an_automatic_run_keeps_what_its_tuner_knows(tmp_path: Path) -> None:
    for name, steps in (("x", 13), ("y", 25)):
        command = ["run", "lls", "--method", "bome:auto", "--set", f"steps={steps}", "--quiet", "--out"]
        assert execute([*command, str(tmp_path / name)]) == 0
    assert execute(["resume", str(tmp_path / "x"), "--set", "steps=25", "--quiet"]) == 0
    assert equal(state(tmp_path / "x"), state(tmp_path / "y"))


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short(tmp_path / "x")
    short(tmp_path / "y")
    for path in (tmp_path / "x" / "checkpoints").glob("step_*"):
        path.rename(tmp_path / path.name)
    (tmp_path / "x" / "summary.json").unlink()
    assert execute(["resume", str(tmp_path / "x")]) == 0
    assert "starting from the beginning" in capsys.readouterr().err
    assert equal(state(tmp_path / "x"), state(tmp_path / "y"))


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    short(tmp_path / "y")
    tensors = tmp_path / "x" / "checkpoints" / "step_00000010" / "tensors.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    (tmp_path / "x" / "summary.json").unlink()
    assert execute(["resume", str(tmp_path / "x")]) == 0
    printed = capsys.readouterr().err
    assert printed.count("warning: ") == 1
    assert "checksum mismatch" in printed
    assert "continuing from step 8" in printed
    assert equal(state(tmp_path / "x"), state(tmp_path / "y"))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("task", "minimax", "task was lls, is minimax"),
        ("method", "bome:preconditioned", "method was bome, is bome:preconditioned"),
        ("seed", 7, "seed was 0, is 7"),
        ("set", {"steps": 12, "eta": 0.9}, "eta was not set, is 0.9"),
    ],
)
def test_another_configuration_is_refused_with_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: Any, words: str
) -> None:
    short(tmp_path / "x")
    path = tmp_path / "x" / "config.json"
    config = json.loads(path.read_text())
    config["spec"][field] = value
    path.write_text(json.dumps(config))
    before = (tmp_path / "x" / "metrics.jsonl").read_bytes()
    assert execute(["resume", str(tmp_path / "x")]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert "--force" in printed
    assert printed.count("\n") == 1
    assert (tmp_path / "x" / "metrics.jsonl").read_bytes() == before


def test_a_setting_given_at_resume_is_refused_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    command = ["resume", str(tmp_path / "x"), "--set", "eta=0.9", "--set", "steps=12"]
    assert execute(command) == 2
    assert "eta was not set, is 0.9" in capsys.readouterr().err
    assert execute([*command, "--force", "--quiet"]) == 0
    assert (directory.read_summary(tmp_path / "x") or {})["steps"] == 12
    assert "eta=0.9" in state(tmp_path / "x")["method"]
    assert execute(["resume", str(tmp_path / "x"), "--quiet"]) == 0


def test_a_checkpoint_of_another_method_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    (tmp_path / "x" / "checkpoints" / "spec.json").unlink()
    assert execute(["resume", str(tmp_path / "x"), "--set", "eta=0.9"]) == 2
    assert "the method was BOME(" in capsys.readouterr().err


def test_forced_step_sizes_stay_as_saved_and_are_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    command = ["resume", str(tmp_path / "x"), "--set", "outer_lr=0.1", "--set", "steps=12", "--force"]
    assert execute(command) == 0
    assert "warning: outer_lr, theta_lr, momentum, decay stay as saved" in capsys.readouterr().err


def test_a_schedule_cannot_be_forced_on_a_run_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    assert execute(["resume", str(tmp_path / "x"), "--set", "decay=3", "--set", "steps=12", "--force", "--quiet"]) == 2
    assert "decay cannot be switched on or off" in capsys.readouterr().err


def test_only_damaged_checkpoints_are_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short(tmp_path / "x")
    for path in (tmp_path / "x" / "checkpoints").glob("step_*/manifest.json"):
        path.write_text("{}")
    assert execute(["resume", str(tmp_path / "x")]) == 4
    assert capsys.readouterr().err.startswith("error: ")
