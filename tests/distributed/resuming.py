"""Runs that are saved, killed and continued; as a script, under torchrun, the one that is killed."""

import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR

from bome import Data, GradientDescent, MaxSteps, Minibatches, Problem, run
from bome.core.ranks import whole
from bome.data.streams import Constant
from bome.errors import RankError
from bome.loop import Record
from bome.methods import BOMEZ, Method, Probe
from bome.stopping import Progress
from bome_studies.matrix import models as models
from bome_studies.matrix.cells import sharded

STEPS, HALF, SAVED, KILLED_AT = 8, 4, 2, 5
KEEPS_Z, STARTS_ANEW = BOMEZ(GradientDescent(0.05, 2)), Probe(GradientDescent(0.05, 2), "both", episode=3, draw="one")
"""A method with a second θ in its state, and one that goes back to its start, whose state so must come back."""
WRAP: dict[str, Callable[[nn.Module], nn.Module]] = {
    "one": lambda net: net,
    "ddp": lambda net: DistributedDataParallel(net),
    "fsdp": lambda net: sharded(net),
}


def noisy(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
    """g with dropout, so that random numbers matter."""
    x, y, source = batch.data
    return models.inner(v, net, models.Batch(nn.functional.dropout(x, 0.1), y, source))


def target(v: Tensor, net: nn.Module, batch: Any) -> Tensor:
    return models.outer(v, net, models.Batch(*batch.data))


class Trained(NamedTuple):
    """v and θ, whole, at the end of a run, and F(v)."""

    v: Tensor
    theta: tuple[Tensor, ...]
    worth: float

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"".join(x.contiguous().numpy().tobytes() for x in (self.v, *self.theta))).hexdigest()

    @property
    def entries(self) -> list[float]:
        found: list[float] = torch.cat([x.reshape(-1) for x in (self.v, *self.theta)]).tolist()
        return [*found, self.worth]


def place(kind: str) -> tuple[int, int]:
    """The number of this rank and how many there are."""
    return (0, 1) if kind == "one" else (dist.get_rank(), dist.get_world_size())


def go(kind: str, folder: Path, steps: int, watch: Callable[[Progress], None] | None = None) -> str:
    """Go on to so many steps on minibatches, with dropout; the digest of v and θ."""
    rank, world = place(kind)
    torch.manual_seed(100 + rank)
    inner, outer = (models.share(models.samples(n, seed), rank, world) for n, seed in ((24, 1), (16, 2)))
    data = Data(inner=Minibatches(inner, 4, seed=rank), outer=Minibatches(outer, 4, seed=rank))
    return trained(kind, folder, steps, lambda v, net: Problem(target, noisy, v, net), data, KEEPS_Z, watch).digest


def smooth(kind: str, folder: Path, steps: int, *, keep_best: bool = False) -> Trained:
    """Go on to so many steps on all samples, without dropout: the same whatever the number of ranks."""
    rank, world = place(kind)
    inner, outer = (models.share(models.samples(n, seed), rank, world) for n, seed in ((24, 1), (16, 2)))
    data = Data(inner=Constant(inner), outer=Constant(outer))
    return trained(
        kind,
        folder,
        steps,
        lambda v, net: Problem(models.outer, models.inner, v, net),
        data,
        STARTS_ANEW,
        keep_best=keep_best,
    )


def trained(
    kind: str,
    folder: Path,
    steps: int,
    problem: Callable[[Tensor, nn.Module], Problem],
    data: Data,
    method: Method,
    watch: Callable[[Progress], None] | None = None,
    *,
    keep_best: bool = False,
) -> Trained:
    v = torch.zeros(models.SOURCES)
    with torch.random.fork_rng():
        net = WRAP[kind](models.residual())
    opt = Adam(net.parameters(), 0.01)
    result = run(
        problem(v, net),
        method,
        outer_opt=SGD([v], 0.5, momentum=0.9),
        inner_opt=opt,
        data=data,
        stop=MaxSteps(steps),
        schedulers=[StepLR(opt, 3, 0.5)],
        record=Record(folder, save_every=SAVED, resume=True),
        progress=watch,
        refit=True,
        keep_best=keep_best,
    )
    assert result.steps == steps
    assert result.refit is not None
    return Trained(v.detach(), tuple(whole(p) for p in net.parameters()), result.refit.F)


def whole_runs(folder: Path) -> dict[str, Any]:
    """Straight, in two parts, and from what one process has saved."""
    return {
        kind: {
            "straight": go(kind, folder / f"{kind}-straight", STEPS),
            "continued": continued(kind, folder),
            "from one": go(kind, folder / f"one-for-{kind}", HALF),
            "kept": smooth(kind, folder / f"{kind}-kept", STEPS, keep_best=True).entries,
            "smooth half": smooth(kind, folder / f"{kind}-smooth", HALF).digest,
        }
        for kind in ("ddp", "fsdp")
    }


def continued(kind: str, folder: Path) -> str:
    """Go on from the checkpoint in the middle of the straight run."""
    place = folder / f"{kind}-continued"
    if dist.get_rank() == 0:
        shutil.copytree(folder / f"{kind}-straight", place)
        for path in (place / "checkpoints").iterdir():
            if path.name > f"step_{HALF:08d}":
                shutil.rmtree(path)
    dist.barrier()
    return go(kind, place, STEPS)


def wider_runs(folder: Path) -> dict[str, Any]:
    """What two ranks have saved, as more of them read it and continue it."""
    return {
        kind: {
            "read": smooth(kind, folder / f"{kind}-smooth", HALF).digest,
            "continued": smooth(kind, folder / f"{kind}-smooth", STEPS).entries,
        }
        for kind in ("ddp", "fsdp")
    }


def killed_run(folder: Path) -> str:
    """The second rank is killed in the first attempt."""
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), dist.get_rank()

    def watch(progress: Progress) -> None:
        if attempt == 0 and rank == 1 and progress.step == KILLED_AT:
            (folder / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return go("ddp", folder / "run", STEPS, watch)
    except RankError:
        (folder / "ended").write_text(str(time.time()))
        raise


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    told = killed_run(Path(sys.argv[1]))
    if dist.get_rank() == 0:
        Path(sys.argv[2]).write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()
