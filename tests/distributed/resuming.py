"""Runs that are saved, killed and continued: `torchrun resuming.py whole|killed FOLDER OUT.json`."""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR

from bome import BOME, Data, GradientDescent, MaxSteps, Minibatches, Problem, run
from bome.distributed import whole
from bome.errors import RankError
from bome.experiments import matrix_models as models
from bome.experiments.matrix_cells import sharded
from bome.loop import Record
from bome.stopping import Progress

STEPS, HALF, SAVED, KILLED_AT = 12, 6, 3, 7
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


def go(kind: str, folder: Path, steps: int, watch: Callable[[Progress], None] | None = None) -> str:
    """Go on to so many steps; the digest of v and θ."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if kind != "one" else (0, 1)
    torch.manual_seed(100 + rank)
    inner, outer = (models.share(models.samples(n, seed), rank, world) for n, seed in ((24, 1), (16, 2)))
    v = torch.zeros(models.SOURCES)
    with torch.random.fork_rng():
        net = WRAP[kind](models.residual())
    opt = Adam(net.parameters(), 0.01)
    result = run(
        Problem(target, noisy, v, net),
        BOME(GradientDescent(0.05, 3)),
        outer_opt=SGD([v], 0.5, momentum=0.9),
        inner_opt=opt,
        data=Data(Minibatches(inner, 4, seed=rank), Minibatches(outer, 4, seed=rank)),
        stop=MaxSteps(steps),
        schedulers=[StepLR(opt, 4, 0.5)],
        record=Record(folder, save_every=SAVED, resume=True),
        progress=watch,
    )
    assert result.steps == steps
    return digest(v, net)


def digest(v: Tensor, net: nn.Module) -> str:
    leaves = (v, *(whole(p) for p in net.parameters()))
    return hashlib.sha256(b"".join(x.detach().contiguous().numpy().tobytes() for x in leaves)).hexdigest()


def whole_runs(folder: Path) -> dict[str, dict[str, str]]:
    """Straight, in two parts, and from what one process has saved."""
    return {
        kind: {
            "straight": go(kind, folder / f"{kind}-straight", STEPS),
            "half": go(kind, folder / f"{kind}-half", HALF),
            "continued": go(kind, folder / f"{kind}-half", STEPS),
            "from one": go(kind, folder / f"one-for-{kind}", HALF),
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
    told = {"whole": whole_runs, "killed": killed_run}[sys.argv[1]](Path(sys.argv[2]))
    if dist.get_rank() == 0:
        Path(sys.argv[3]).write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()
