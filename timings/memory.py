"""Peak memory of a BOME step over plain training of the same model, in copies of θ, measured in fresh processes."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper
from bome.oracles import OracleName
from bome_studies.matrix.measures import WIDTH, Wide
from timings.table import show

LAYERS = 40


def peak_bytes() -> int:
    """The largest resident size of this process since the last `reset_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def reset_peak() -> None:
    """Forget the largest resident size so far."""
    Path("/proc/self/clear_refs").write_text("5")


def child(kind: str, steps: int) -> None:
    """Print the peak of some steps of one kind, in copies of θ."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, x = Wide(LAYERS), torch.randn(1, WIDTH)
    w = torch.ones(())
    opt = SGD(net.parameters(), 1e-3)

    def inner(v: Tensor, module: nn.Module, _: object) -> Tensor:
        loss: Tensor = v * (module(x) ** 2).mean()
        return loss

    def plain() -> None:
        inner(w, net, None).backward()  # type: ignore[no-untyped-call]
        opt.step()
        opt.zero_grad(set_to_none=True)

    if kind == "plain":
        step = plain
    else:
        problem = Problem(lambda v, module, _: ((module(x) - v) ** 2).mean(), inner, w, net)
        oracle: OracleName = "backward" if kind == "backward" else "autograd"
        step = Stepper(problem, BOME(GradientDescent(1e-3, steps)), SGD([w], 0.1), opt, oracle=oracle).step  # type: ignore[assignment]
    step()
    reset_peak()
    for _ in range(2):
        step()
    print(peak_bytes() / (4 * LAYERS * WIDTH * WIDTH))


def measure(kind: str, steps: int) -> float:
    """The peak of one kind in a fresh process."""
    # Freed blocks go back to the system at once, so that the resident size is what is in use.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "timings.memory", kind, str(steps)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603 - our own module
    return float(done.stdout)


def main() -> None:
    """Measure and print."""
    plain = measure("plain", 1)
    rows = [
        (f"BOME, {kind}", *(f"{measure(kind, steps) - plain:.2f}" for steps in (1, 10, 50)), goal)
        for kind, goal in (("autograd", "≤ 4"), ("backward", "≤ 2"))
    ]
    show("peak memory over plain training, in copies of θ", ("step", "T = 1", "T = 10", "T = 50", "goal"), rows)


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]))
