"""What one rank does for the matrix: `[torchrun] -m bome_studies.matrix.worker cells|memory OUT.json`.

For "cells" every rank tries every method in the cells of so many ranks, and measures; the first one writes it
down. Memory is measured by processes of their own.
"""

import json
import os
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bome.storage.atomic import write_atomic
from bome_studies.matrix.cells import CELLS, METHODS, attempt
from bome_studies.matrix.measures import memory, of_one_process, of_two_ranks


def cells(rank: int, world: int) -> dict[str, Any]:
    """What so many ranks find, each of which calls this."""
    measured = {1: of_one_process, 2: of_two_ranks}.get(world, dict)()
    attempts = [
        asdict(attempt(name, method, rank)) for name, cell in CELLS.items() if cell.ranks == world for method in METHODS
    ]
    return {"attempts": attempts, "measures": measured}


def main(what: str, out: Path) -> None:
    """Try and measure; all ranks."""
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    rank = dist.get_rank() if world > 1 else 0
    numbers = cells(rank, world) if what == "cells" else memory(world)
    if rank == 0:
        write_atomic(out, json.dumps(numbers))
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
