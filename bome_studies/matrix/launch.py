"""Starts the processes of the matrix: one by itself, several by torchrun, all on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bome.errors import BilevelError

WORKER = "bome_studies.matrix.worker"


class LaunchError(BilevelError, RuntimeError):
    """Processes of the matrix failed."""


def torchrun(ranks: int, *arguments: str, restarts: int = 0) -> list[str]:
    """The command that runs a module or script in so many processes; it listens on this machine only."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*launcher, "--max-restarts", str(restarts), *arguments]


def environment() -> dict[str, str]:
    """That of this process, for small processes beside each other whose freed memory returns to the system at once."""
    # Else a restarted group may find addresses of the one before in the store that torchrun's rendezvous shares.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return {**os.environ, **settings, **own_store}


def launch(what: str, ranks: int, out: Path, timeout: float = 900) -> Any:
    """What the worker of the matrix measures with so many ranks."""
    worker = ["-m", WORKER, what, str(out)]
    command = [sys.executable, *worker] if ranks == 1 else torchrun(ranks, *worker)
    try:
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{ranks} ranks did not end within {timeout:.0f} s ({what})") from None
    if done.returncode != 0 or not out.exists():
        last = [line for line in done.stderr.splitlines() if "Error" in line][:1]
        raise LaunchError(f"{ranks} ranks failed ({what}): {''.join(last) or done.stderr[-500:]}")
    return json.loads(out.read_text())
