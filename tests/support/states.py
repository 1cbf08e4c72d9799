"""States to save, what tells them apart, and disks that fail."""

import math
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import torch

from bome.storage import checkpoint

FILES = ("manifest.json", "state.json", "tensors.safetensors")
DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Equal in type, shape, order and every bit (any NaN outside of a tensor equals any other)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and raw_bytes(a) == raw_bytes(b)
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def state_at(step: int, version: int = 0) -> dict[str, Any]:
    """The state a test saves at a step: a function of the step, so that a mix-up shows."""
    generator = torch.Generator().manual_seed(1000 * step + version)
    weights = torch.randn(32, 32, generator=generator)
    return {"version": version, "weights": weights, "optimizer": {0: (step, math.inf, weights[0])}}


def assert_good(found: checkpoint.Checkpoint | None, step: int, version: int = 0) -> None:
    assert found is not None
    assert found.step == step
    assert same(found.state, state_at(step, version))


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int, transposed: bool) -> torch.Tensor:
    """A tensor of arbitrary bits, NaN payloads included."""
    count = math.prod(shape) * dtype.itemsize
    high = 2 if dtype is torch.bool else 256
    data = torch.randint(high, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    tensor = data.view(dtype).reshape(shape)
    return tensor.mT if transposed and tensor.ndim >= 2 else tensor


class Failing:
    """Stands for `os` in the module under test; its n-th change to the disk fails."""

    CHANGES = ("mkdir", "write", "fsync", "rename", "replace")

    def __init__(self, n: int, code: int) -> None:
        self.left, self.code = n, code

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.CHANGES:
            return real

        def counted(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(self.code, os.strerror(self.code))
            return real(*args)

        return counted
