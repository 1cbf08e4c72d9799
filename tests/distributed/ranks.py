"""Starts ranks for the tests, `ranks.py together|saves FOLDER`: torch is imported once, and the ranks are forked."""

import itertools
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # FSDP2 would import it in every rank
import torch.distributed as dist

from bome.storage.checkpoint import load, load_latest
from bome_studies.matrix.worker import cells
from tests.distributed import bounding, mixing, resuming, saving


def start(size: int, work: Callable[[], Any]) -> list[BaseProcess]:
    """Let so many ranks do something; the processes, which have ended."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        started = [context.Process(target=_rank, args=(n, size, f"{folder}/store", work)) for n in range(size)]
        for process in started:
            process.start()
        for process in started:
            process.join()
    return list(started)


def _rank(rank: int, size: int, store: str, work: Callable[[], Any]) -> None:
    torch.set_num_threads(1)
    minute = timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=minute)
    work()
    dist.barrier()
    dist.destroy_process_group()


def told(out: Path, work: Callable[[], Any]) -> Callable[[], None]:
    """Work whose result the first rank writes down."""

    def writing() -> None:
        found = work()
        if dist.get_rank() == 0:
            out.write_text(json.dumps(found))

    return writing


def together(folder: Path) -> None:
    """The cells of two ranks, runs, mixtures and bounded steps; then four ranks that go on with what two have saved."""

    def two() -> None:
        rank, world = dist.get_rank(), dist.get_world_size()
        told(folder / "cells.json", lambda: cells(rank, world))()
        told(folder / "whole.json", lambda: resuming.whole_runs(folder))()
        told(folder / "bounded.json", lambda: {kind: bounding.bounded(kind) for kind in ("ddp", "fsdp")})()
        told(folder / "mixtures.json", lambda: {kind: mixing.learned(kind, rank, world) for kind in ("ddp", "fsdp")})()

    four = told(folder / "wider.json", lambda: resuming.wider_runs(folder))
    for size, work in ((2, two), (4, four)):
        codes = [process.exitcode for process in start(size, work)]
        if any(codes):
            sys.exit(f"of {size} ranks some failed: exit codes {codes}")


def saves(folder: Path) -> None:
    """Two ranks save, and one of them is killed before its first call, its second, ... until it lives through."""
    found: list[dict[str, Any]] = []
    for victim, step in itertools.product((0, 1), (1, 2)):  # the first step anew, or a second one
        for call in itertools.count():
            found.append({"victim": victim, **killed(folder / f"{victim}-{step}-{call}", victim, step, call)})
            if not any(found[-1]["codes"]):
                break
    (folder / "saves.json").write_text(json.dumps(found))


def killed(folder: Path, victim: int, step: int, call: int) -> dict[str, Any]:
    """Save, save while one is killed, save again; what can be read after the second and the third."""
    start(2, partial(saving.save, folder, 1, 1))
    second = start(2, partial(saving.killed_at, call, victim, partial(saving.save, folder, step, 2)))
    told = {"codes": [process.exitcode for process in second], "read": read(folder)}
    start(2, partial(saving.save, folder, 3, 3))
    return {**told, "next": read(folder), "names": [path.name for path in folder.iterdir()]}


def read(folder: Path) -> Any:
    """The newest checkpoint as each rank reads it."""
    newest = load_latest(folder)
    if newest is None:
        return None
    return [
        [x.tolist() if isinstance(x, torch.Tensor) else x for x in load(newest.path, rank).state.values()]
        for rank in (0, 1)
    ]


if __name__ == "__main__":
    {"together": together, "saves": saves}[sys.argv[1]](Path(sys.argv[2]))
