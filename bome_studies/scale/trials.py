"""How the cost of a BOME step grows: time and memory of steps against the bare evaluations they are made of."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from bome._typing import Report
from bome.errors import StorageError
from bome.inner import GradientDescent
from bome.methods import BOME
from bome.per_sample import PerSample, RowSGD
from bome.problem import Problem
from bome.projections import box
from bome.stepper import Stepper
from bome.storage.atomic import write_atomic
from bome_studies.ledger import Ledger
from bome_studies.parts import results_of
from bome_studies.scale.protocol import ScaleProtocol

AXES = ("parameters", "T", "samples", "ranks")
RATIO, SECONDS, COPIES = "ratio", "seconds", "copies"


class Chain(nn.Module):
    """Square layers with tanh between them, of about so many parameters: many weights, few activations."""

    def __init__(self, parameters: int, layers: int = 4) -> None:
        super().__init__()
        self.width = max(2, round((parameters / layers) ** 0.5))
        self.layers = nn.ModuleList(nn.Linear(self.width, self.width, bias=False) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """The last layer."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def inner(v: Tensor, net: nn.Module, x: Tensor) -> Tensor:
    """g: a weighted error."""
    loss: Tensor = (v.sigmoid() * (net(x) - x).square().mean(1)).mean()
    return loss


def outer(v: Tensor, net: nn.Module, x: Tensor) -> Tensor:
    """f: the error."""
    loss: Tensor = (net(x) - x).square().mean()
    return loss


@dataclass(frozen=True)
class Point:
    """What is measured at once: a place on an axis, as the protocol has it."""

    axis: str
    place: int
    protocol: ScaleProtocol

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.axis}-{self.place}"


Measured = Mapping[str, Mapping[int, Mapping[str, float]]]
"""Numbers by axis, by place on it, by name."""


def measured(protocol: ScaleProtocol, folder: Path, report: Report) -> Measured:
    """The numbers of each point; those that are in the folder are read."""
    places = (protocol.parameters, protocol.inner_steps, protocol.samples, protocol.ranks)
    points = [Point(axis, place, protocol) for axis, own in zip(AXES, places, strict=True) for place in own]
    numbers = results_of(points, measure, folder, report)
    return {axis: {point.place: numbers[point.name] for point in points if point.axis == axis} for axis in AXES}


def measure(point: Point) -> dict[str, float]:
    """Time, and memory where it is of interest."""
    place, protocol = point.place, point.protocol
    match point.axis:
        case "parameters":
            return of_model(place, 5, protocol.repeats)
        case "T":
            return of_model(protocol.middle, place, protocol.repeats)
        case "samples":
            return of_samples(place, protocol.repeats)
        case _:
            return of_ranks(place, protocol)


def compared(step: Callable[[], object], bare: Callable[[], object], repeats: int) -> dict[str, float]:
    """Seconds of the processor of a step, and its ratio to the bare evaluations; in turn, medians over the rounds."""
    step()
    bare()
    seconds, ratios = [], []
    for _ in range(repeats):
        times = []
        for call in (step, bare):
            calls, start = 0, time.process_time()
            while calls < 1 or time.process_time() - start < 0.02:
                call()
                calls += 1
            times.append((time.process_time() - start) / calls)
        seconds.append(times[0])
        ratios.append(times[0] / times[1])
    return {SECONDS: statistics.median(seconds), RATIO: statistics.median(ratios)}


def of_model(parameters: int, inner_steps: int, repeats: int) -> dict[str, float]:
    """A model of that size: time against the T + 2 evaluations, memory against plain training."""
    torch.manual_seed(0)
    net, v = Chain(parameters), torch.zeros(8)
    stepper, bare, plain = _pieces(net, net, v, inner_steps)
    large = parameters >= 10**8
    times = compared(stepper, bare, 1 if large else repeats)
    copy = sum(p.numel() * p.element_size() for p in net.parameters())
    peaks = []
    for call in (stepper, plain):
        call()
        with Ledger() as ledger:
            call()
        peaks.append(ledger.peak)
    return {**times, COPIES: (peaks[0] - peaks[1]) / copy}


def _pieces(
    net: nn.Module, chain: Chain, v: Tensor, inner_steps: int
) -> tuple[Callable[[], object], Callable[[], None], Callable[[], None]]:
    """A step, the evaluations it is made of, and a step of plain training."""
    x = torch.randn(len(v), chain.width)
    opt = SGD(net.parameters(), 1e-3)
    stepper = Stepper(
        Problem(outer, inner, v, net), BOME(GradientDescent(1e-3, inner_steps)), SGD([v], 0.1), opt, oracle="backward"
    )

    def bare() -> None:
        for loss in (inner,) * (inner_steps + 1) + (outer,):
            opt.zero_grad()
            loss(v, net, x).backward()  # type: ignore[no-untyped-call]
        opt.zero_grad()

    def plain() -> None:
        inner(v, net, x).backward()  # type: ignore[no-untyped-call]
        opt.step()
        opt.zero_grad()

    return lambda: stepper.step(inner=x, outer=x), bare, plain


def of_samples(n: int, repeats: int) -> dict[str, float]:
    """A weight for each of n samples, 256 of them in a step, with momentum; against a table of 256 rows."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    pieces = []
    for rows in (n, 256):
        net, table = Chain(10_000), PerSample(rows)
        x = torch.randn(256, net.width)
        problem = Problem(
            lambda v, net, b: outer(v, net, b[0]), lambda v, net, b: inner(v, net, b[0]), table, net, box(-9, 9)
        )
        stepper = Stepper(problem, BOME(GradientDescent(1e-3, 1)), RowSGD([table.values], 0.1, 0.9))

        def step(stepper: Stepper = stepper, rows: int = rows, x: Tensor = x) -> None:
            batch = (x, torch.randint(rows, (256,), generator=generator))
            stepper.step(inner=batch, outer=batch)

        pieces.append(step)
    return compared(pieces[0], pieces[1], 3 * repeats)


# --- ranks ------------------------------------------------------------------------------------------------------------


def of_ranks(ranks: int, protocol: ScaleProtocol) -> dict[str, float]:
    """DDP over so many processes of this machine: time of a step against its evaluations, both with messages."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        arguments = ["-m", "bome_studies.scale.trials", str(out), str(protocol.middle), str(protocol.repeats)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(  # noqa: S603 - our own module
            [*torchrun, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StorageError(f"{ranks} ranks could not be started: {done.stderr.strip().splitlines()[-1:]}")
        numbers: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
        return numbers


def rank(out: Path, parameters: int, repeats: int) -> None:
    """What each rank does: a fixed number of rounds, so that none waits for another."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    chain, v = Chain(parameters), torch.zeros(8)
    step, bare, _ = _pieces(DistributedDataParallel(chain), chain, v, 5)
    times: Mapping[str, list[float]] = {"step": [], "bare": []}
    for _ in range(repeats + 1):
        for name, call in (("step", step), ("bare", bare)):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(5):
                call()
            times[name].append((time.perf_counter() - start) / 5)
    ratios = [a / b for a, b in zip(times["step"][1:], times["bare"][1:], strict=True)]
    numbers = {SECONDS: statistics.median(times["step"][1:]), RATIO: statistics.median(ratios)}
    if dist.get_rank() == 0:
        write_atomic(out, json.dumps(numbers))
    dist.barrier()
    dist.destroy_process_group()


def projection(parameters: float = 7e9, gpus: int = 8, inner_steps: int = 5) -> dict[str, Any]:
    """Memory per GPU and messages per step of a large model under FSDP2, in 10^9 bytes; by counting.

    bfloat16 weights and gradients, Adam with float32 master weights and two moments; activations left out. An
    evaluation gathers the weights for the forward and the backward pass and scatters the sums of gradients; a ring
    sends (N − 1) / N of each. BOME adds θ_k and the first gradient of g, both in bfloat16.
    """
    share, giga = parameters / gpus, 1e9
    plain = 16 * share / giga
    evaluation = 3 * 2 * parameters * (gpus - 1) / gpus / giga
    return {
        "plain": plain,
        "bome": plain + 4 * share / giga,
        "two_models": 2 * plain,
        "evaluation": evaluation,
        "step": (inner_steps + 2) * evaluation,
        "inner_steps": inner_steps,
    }


if __name__ == "__main__":
    rank(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
