"""The examples run, are short, and say what is true."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Scripts set the seed of torch, and two of them make a process group."""
    with torch.random.fork_rng():
        yield
    if torch.distributed.is_initialized():  # the script has failed
        torch.distributed.destroy_process_group()


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)]


def test_there_is_an_example_of_every_feature() -> None:
    wanted = "minimal minibatch adam_and_schedulers compile accumulation ddp fsdp2 lora checkpoint custom_method"
    assert {path.stem for path in EXAMPLES} >= {*wanted.split(), "custom_task", "hugging_face"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_on_a_page(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 60
    assert lines[0].startswith('"""')


def test_minimal(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(printed("minimal", capsys))[1] < 2.0


def test_minibatch_finds_the_wrong_labels(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, right = numbers(printed("minibatch", capsys))
    assert wrong < 0.1
    assert right > 0.5


def test_adam_and_schedulers_tell_useful_features_from_useless_ones(capsys: pytest.CaptureFixture[str]) -> None:
    useful, useless = numbers(printed("adam_and_schedulers", capsys))[:2]
    assert useful < 0.2 * useless


def test_compile(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(printed("compile", capsys))[0] < 1.5


def test_accumulation_is_the_step_of_the_large_batch(capsys: pytest.CaptureFixture[str]) -> None:
    difference, *weights = numbers(printed("accumulation", capsys))
    assert difference < 1e-5
    assert max(map(abs, weights)) > 1e-2


def test_lora_trains_few_parameters_and_finds_the_source_with_right_labels(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("lora", capsys)
    weights = numbers(text)
    assert weights[0] == max(weights)
    counts = re.match(r"(\d+) of (\d+)", text)
    assert counts is not None
    assert int(counts[1]) < 0.1 * int(counts[2])


def test_checkpoint_goes_on_to_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed("checkpoint", capsys) == "the same bits: True\n"


def test_a_custom_method_comes_near_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    found = numbers(printed("custom_method", capsys))[:4]
    assert all(abs(x - 1 / 1.1) < 0.05 for x in found)


def test_a_custom_task_is_checked_and_improved(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = numbers(printed("custom_task", capsys))[:2]
    assert after < before


def test_hugging_face_finds_the_source_like_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    counting, *others = numbers(printed("hugging_face", capsys))
    assert counting > max(others)


@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_one_rank(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(name, capsys).startswith("1 ranks, ")


def test_fsdp2_trusts_the_source_that_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong, loss = numbers(printed("fsdp2", capsys))
    assert right > 0.9 > 0.1 > wrong
    assert loss < 0.5  # far below the variance of the outputs, about 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_two_ranks_find_what_one_finds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = numbers(printed(name, capsys))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    found = subprocess.run([*torchrun, str(FOLDER / f"{name}.py")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("2 ranks")
    assert numbers(found.stdout) == pytest.approx(one, abs=2e-4)
