"""What is parsed is kept: made once, verified when loaded, made again when damaged, by one process at a time."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bome.data.parsed import is_kept, keep
from bome.errors import StorageError

SCRIPT = """
import sys, time
from pathlib import Path
import torch
from bome.data.parsed import keep

log, seconds = Path(sys.argv[1]), float(sys.argv[2])

def make():
    with log.open("a") as file:
        file.write("made\\n")
    time.sleep(seconds)
    return {"x": torch.arange(1000)}

assert keep("thing", make)["x"].sum() == 499500
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, Any]:
        self.calls += 1
        return {"x": torch.arange(100, dtype=torch.uint8), "texts": ["a", "é\x00"], "classes": ("one", "two")}


def test_it_is_made_once_and_comes_back_the_same(cache: Path) -> None:
    make = Maker()
    assert not is_kept("thing")
    first, second = keep("thing", make), keep("thing", make)
    assert is_kept("thing")
    assert make.calls == 1
    assert torch.equal(first.pop("x"), second.pop("x"))
    assert first == second == {"texts": ["a", "é\x00"], "classes": ("one", "two")}


@pytest.mark.parametrize("name", ["entry.safetensors", "entry.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone"])
def test_a_damaged_entry_is_made_again(cache: Path, name: str, damage: str) -> None:
    make = Maker()
    keep("thing", make)
    (path,) = cache.rglob(name)
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        changed = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
        path.write_bytes({"cut": content[:-1], "changed": changed, "empty": b""}[damage])
    assert torch.equal(keep("thing", make)["x"], torch.arange(100, dtype=torch.uint8))
    keep("thing", make)
    assert make.calls == 2
    (path,) = cache.rglob(name)
    assert path.read_bytes() == content


def test_a_maker_that_fails_leaves_nothing(cache: Path) -> None:
    def fails() -> dict[str, Any]:
        raise StorageError("no such data")

    with pytest.raises(StorageError, match="no such data"):
        keep("thing", fails)
    assert not is_kept("thing")
    keep("thing", Maker())


def test_a_cache_that_cannot_be_written_is_told_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BOME_CACHE", str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"cannot write .*; set BOME_CACHE to a folder that can be written"):
        keep("thing", Maker())


def test_of_several_processes_one_makes_it_and_a_killed_one_does_not_block_the_others(
    cache: Path, tmp_path: Path
) -> None:
    def start(log: Path, seconds: float) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(log), str(seconds)], env=os.environ)

    def wait_for(log: Path) -> None:
        deadline = time.monotonic() + 60
        while not log.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    killed, log = start(tmp_path / "killed", 600), tmp_path / "log"
    wait_for(tmp_path / "killed")  # it holds the lock now
    others = [start(log, 0.5) for _ in range(2)]
    time.sleep(0.5)
    assert not log.exists()
    killed.kill()
    killed.wait()
    assert [each.wait(60) for each in others] == [0, 0]
    assert log.read_text() == "made\n"
