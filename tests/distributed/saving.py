"""Ranks that save together and are killed on the way, at any call of the operating system."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from bome.core.ranks import Ranks
from bome.storage.together import save_together

CALLS = ("mkdir", "open", "write", "fsync", "rename")
"""What changes a folder, or says when it is on disk."""


def save(folder: Path, step: int, version: int) -> None:
    """Save a state that tells its version: a sharded tensor, a whole one, and one of this rank."""
    group = dist.group.WORLD
    assert group is not None
    ranks = Ranks(group)
    net = nn.Linear(3, 4, bias=False)
    nn.init.constant_(net.weight, version)
    fully_shard(net)
    shared = {"sharded": net.weight, "whole": torch.full((3,), float(version)), "version": version}
    save_together(folder, step, shared, {"own": torch.full((2,), 10.0 * ranks.rank + version)}, ranks)


def killed_at(call: int, victim: int, work: Callable[[], Any]) -> None:
    """Work; the victim kills itself before its n-th call."""
    left = call

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return instead

    if dist.get_rank() == victim:
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
    work()
