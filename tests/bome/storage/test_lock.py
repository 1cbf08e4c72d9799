"""One process at a time; the lock of one that was killed is free."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bome.errors import StorageError
from bome.storage.lock import alone

COUNT = """
import sys, time
from pathlib import Path
from bome.storage.lock import alone
folder = Path(sys.argv[1])
for _ in range(10):
    with alone(folder):
        count = int((folder / "count").read_text())
        time.sleep(0.002)
        (folder / "count").write_text(str(count + 1))
"""

HOLD = """
import sys, time
from pathlib import Path
from bome.storage.lock import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def start(script: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_processes_take_turns(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    processes = [start(COUNT, tmp_path) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    for process in processes:
        process.communicate()
    assert (tmp_path / "count").read_text() == "20"  # without a lock some counts are lost


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with start(HOLD, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        waiting = start(COUNT, tmp_path)
        (tmp_path / "count").write_text("0")
        time.sleep(0.5)
        assert waiting.poll() is None or waiting.returncode == 0
        assert (tmp_path / "count").read_text() == "0"  # it waits
        process.send_signal(signal.SIGKILL)
    with waiting:
        assert waiting.wait(60) == 0
    with alone(tmp_path):
        assert (tmp_path / "count").read_text() == "10"


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=r"cannot write .*file.*: "), alone(tmp_path / "file" / "folder"):
        pass
    assert (tmp_path / "file").read_text() == "x"
