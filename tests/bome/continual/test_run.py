"""Runs of continual learning: interrupted and continued, diverged, and on the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bome.cli.main import execute
from bome.continual.networks import Mlp, ReducedResNet
from bome.continual.run import Spec, _Run, learn, make_strategy
from bome.continual.settings import STRATEGIES
from bome.continual.strategy import Strategy
from bome.continual.streams import STREAMS
from bome.errors import ProblemError, RunInterruptedError
from bome.storage import checkpoint
from tests.support.small_streams import BRIGHT, coloured_stream, small_stream

DIGITS = "continual-digits"
NAMES = (*STRATEGIES, "ctn+itd:total", "ctn+bome:auto")
ALL = ("offline", "er", "gem", "mer", "ctn+itd", "ctn+itd:total", "ctn+bvfsm", "ctn+penalty", "ctn+pbgd", "ctn+bome")


def final(folder: Path) -> dict[str, Any]:
    """The last checkpoint of a run, without the time it took."""
    found = checkpoint.load_latest(folder / "checkpoints")
    assert found is not None
    return {key: value for key, value in found.state.items() if key != "seconds"}


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal bit for bit; NaN equals NaN."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b or (a != a and b != b))


@pytest.mark.parametrize(
    ("task", "name"),
    [*((DIGITS, name) for name in NAMES), *(("continual-cifar", name) for name in ("er", "gem", "mer", "ctn+bome"))],
)
def test_a_run_that_was_cut_within_a_task_ends_bit_for_bit_as_an_uninterrupted_one(
    task: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without running statistics."""
    monkeypatch.setitem(STREAMS, "continual-cifar", partial(coloured_stream, samples=100))
    spec = Spec(task, name, 1, {} if name == "offline" else {"memory": 10})
    whole = learn(spec, tmp_path / "whole")

    fresh = continual_strategy(spec)
    kind, observe, calls = type(fresh), type(fresh).observe, 0
    pause = "bome.continual.run.SAVE_SECONDS"

    def failing(self: Strategy, given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 12:  # the second batch of the second task is the last one before a checkpoint
            monkeypatch.setattr(pause, -1.0)
        if calls == 13:
            monkeypatch.setattr(pause, 1e9)
        if calls == 14:  # the process is as good as dead
            raise KeyboardInterrupt
        observe(self, given)

    monkeypatch.setattr(kind, "observe", failing)
    with pytest.raises(KeyboardInterrupt):
        learn(spec, tmp_path / "cut")
    assert not (tmp_path / "cut" / "summary.json").exists()
    again = learn(spec, tmp_path / "cut")
    assert calls == sum(map(len, fresh.stages())) + 2  # the batch that was cut, and the one since the checkpoint
    assert same(again.matrix, whole.matrix)
    assert again.evaluations == whole.evaluations
    assert again.tuned == whole.tuned
    assert set(whole.tuned) == ({"inner_steps", "outer_scale"} if name.endswith(":auto") else set())
    assert same(final(tmp_path / "cut"), final(tmp_path / "whole"))


def continual_strategy(spec: Spec) -> Strategy:
    return make_strategy(spec.strategy, STREAMS[spec.stream](0), *spec.settled())


def test_a_killed_process_leaves_a_run_that_continues_bit_for_bit(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import torch; torch.set_num_threads(1)\n"
        "import bome.continual.run as run\n"
        "run.SAVE_SECONDS = -1.0\n"
        f"run.learn(run.Spec({DIGITS!r}, 'ctn+bome', 2), Path(sys.argv[1]))\n"
    )
    folder = tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment)
    deadline = time.monotonic() + 120
    while len(list((folder / "checkpoints").glob("step_0000001?"))) == 0 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if (folder / "summary.json").exists():
        pytest.skip("the process ended before it could be killed")
    again = learn(Spec(DIGITS, "ctn+bome", 2), folder)
    whole = learn(Spec(DIGITS, "ctn+bome", 2), tmp_path / "whole")
    assert same(again.matrix, whole.matrix)
    assert same(final(folder), final(tmp_path / "whole"))


def test_a_signal_saves_and_ends_the_run(tmp_path: Path) -> None:
    def kill(what: str, done: int, total: int) -> None:
        if done == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(RunInterruptedError) as caught:
        learn(Spec(DIGITS, "er", 0), tmp_path, kill)
    assert caught.value.exit_code == 143
    found = checkpoint.load_latest(tmp_path / "checkpoints")
    assert found is not None
    assert found.state["done"] == 5


def test_an_ended_run_is_read_and_another_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = learn(Spec(DIGITS, "er", 0), tmp_path)
    monkeypatch.setattr("bome.continual.run._Run", None)
    assert asdict(learn(Spec(DIGITS, "er", 0), tmp_path)) == json.loads((tmp_path / "summary.json").read_text())
    assert summary.observed["acc"] == pytest.approx(np.mean([a for a in summary.matrix[-1] if a is not None]))
    for other in (Spec(DIGITS, "er", 1), Spec(DIGITS, "er", 0, {"theta_lr": 0.5}), Spec(DIGITS, "gem", 0)):
        with pytest.raises(ProblemError, match="holds another continual run"):
            learn(other, tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(ProblemError, match="not empty"):
        learn(Spec(DIGITS, "er", 0), tmp_path / "mine")


@pytest.mark.parametrize("strategy", ["ctn+bome", "er", "mer", "offline"])
def test_a_run_that_diverges_says_so(strategy: str, tmp_path: Path) -> None:
    summary = learn(Spec(DIGITS, strategy, 0, {"theta_lr": 1e30}), tmp_path)
    assert summary.status == "diverged"
    assert "not finite" in summary.reason


def test_gem_that_diverges_with_earlier_tasks_in_memory_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = Mlp.forward

    def spoiled(self: Mlp, x: torch.Tensor, modulations: Any = None) -> torch.Tensor:
        seen.append(len(x))
        return forward(self, x, modulations) * (float("nan") if len(seen) > 25 and self.training else 1.0)

    seen: list[int] = []
    monkeypatch.setattr(Mlp, "forward", spoiled)
    summary = learn(Spec(DIGITS, "gem", 0), tmp_path)
    assert summary.status == "diverged"
    assert len(summary.matrix) == 1  # in the second task


def test_a_strategy_runs_and_is_resumed_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    arguments = ["run", DIGITS, "--method", "er", "--set", "theta_lr=0.1", "--seed", "3", "--out", str(folder)]
    assert execute([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["observed"].keys() == {"acc", "ft", "nbt", "fm"}
    assert (folder / "report.html").exists()
    config = json.loads((folder / "config.json").read_text())
    assert config["kind"] == "continual"
    assert config["command"] == f"bome run {DIGITS} --method er --set theta_lr=0.1 --seed 3 --out {folder}"
    assert config["spec"]["set"] == {"theta_lr": 0.1}
    assert config["spec"]["settings"]["theta_lr"] == 0.1
    (folder / "summary.json").unlink()
    assert execute(["resume", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "ACC" in printed
    assert json.loads((folder / "summary.json").read_text())["matrix"] == told["matrix"]
    assert execute(["ls"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*STRATEGIES, "continual-pmnist", "continual-cifar", DIGITS))


def test_runs_on_streams_are_shown_together_by_their_accuracies(tmp_path: Path) -> None:
    for name in ("er", "offline"):
        learn(Spec(DIGITS, name, 0), tmp_path / name)
    assert execute(["report", str(tmp_path), "--quiet"]) == 0
    text = (tmp_path / "report.html").read_text()
    assert all(f'<th scope="col">{name}</th>' in text for name in ("method", "ACC", "FT", "NBT"))
    assert '<th scope="col">optimal f</th>' not in text


def test_a_run_has_all_settings_of_its_strategy_and_no_others() -> None:
    er, bvfsm = (Spec(DIGITS, name, 0).to_dict()["settings"] for name in ("er", "ctn+bvfsm"))
    assert set(er) == {"batch", "theta_lr", "inner_steps", "memory", "replay"}
    assert {"c_z", "c_ln", "updates"} <= bvfsm.keys()
    assert not {"eta", "margin", "epochs", "steps"} & bvfsm.keys()
    assert Spec(DIGITS, "ctn+bome:preconditioned", 0).to_dict()["settings"]["geometry"] == "steps"


@pytest.mark.parametrize("task", ["continual-digits", "continual-cifar"])
@pytest.mark.parametrize("name", ALL)
def test_no_test_image_ever_reaches_training(
    name: str, task: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Test images are bright: but for judging, a network sees only dark ones; soft targets and statistics included."""
    monkeypatch.setitem(STREAMS, "continual-digits", small_stream)
    monkeypatch.setitem(STREAMS, "continual-cifar", coloured_stream)
    learned: list[float] = []
    judged: list[float] = []
    seen, accuracy = learned, _Run._accuracy

    def judging(self: _Run, task: int) -> float:
        nonlocal seen
        seen = judged
        found = accuracy(self, task)
        seen = learned
        return found

    monkeypatch.setattr(_Run, "_accuracy", judging)
    for kind in (Mlp, ReducedResNet):
        forward = kind.forward

        def watched(self: Any, x: Tensor, modulations: Any = None, forward: Any = forward) -> Any:
            seen.append(float(x.max()))
            return forward(self, x, modulations)

        monkeypatch.setattr(kind, "forward", watched)
    values = {} if name == "offline" else {"memory": 10}
    summary = learn(Spec(task, name, 0, {"batch": 5, **values}), tmp_path)
    assert summary.status == "finished"
    assert max(learned) < BRIGHT / 255
    assert min(judged) >= BRIGHT / 255
