"""Sweeps on a local Dask and a local Ray cluster of two workers, one of which is killed on the way."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bome.core.pool import Backend, _end
from bome.runs.directory import FINISHED
from bome.runs.jobs import Outcomes, grid
from bome.runs.schedule import run_jobs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the clusters' own warnings


@contextlib.contextmanager
def dask_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    distributed = pytest.importorskip("dask.distributed", reason="needs bome[dask]")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", cluster.scheduler_address)
        yield lambda: int(cluster.workers[0].pid)


@contextlib.contextmanager
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    ray = pytest.importorskip("ray", reason="needs bome[ray]")
    psutil = pytest.importorskip("psutil", reason="finds the workers of Ray")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    ray.init(num_cpus=2, _node_ip_address="127.0.0.1", **quiet)

    def worker() -> int:
        """A process of this cluster that carries out a task: if an agent of the node died, so would the node."""
        try:
            mine = psutil.Process().children(recursive=True)
            return next(int(process.pid) for process in mine if process.name() == f"ray::{_end.__name__}")
        except psutil.NoSuchProcess as error:
            raise ProcessLookupError from error

    try:
        yield worker
    finally:
        ray.shutdown()


CLUSTERS: dict[Backend, Any] = {"dask": dask_cluster, "ray": ray_cluster}


@pytest.mark.parametrize("backend", list(CLUSTERS))
def test_every_run_ends_once_although_a_worker_is_killed(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = grid("lls", "bome", {"steps": 600}, {"eta": [0.3, 0.5]}, 2)
    killed: list[int] = []

    def kill(victim: Callable[[], int]) -> None:
        """As soon as a run is under way."""
        for _ in range(3000):
            if list((tmp_path / "at_work").glob("*/metrics.jsonl")):
                with contextlib.suppress(StopIteration, ProcessLookupError):
                    pid = victim()
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return
            time.sleep(0.05)

    with CLUSTERS[backend](monkeypatch) as victim:
        thread = threading.Thread(target=kill, args=(victim,))
        thread.start()
        outcomes = run_jobs(jobs, tmp_path, workers=2, backend=backend, batched=False)
        thread.join()
    assert killed
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 4
    alone = run_jobs(jobs[:1], tmp_path / "alone", batched=False)
    assert outcomes[jobs[0]].last["f"] == alone[jobs[0]].last["f"]  # what was continued is what was not interrupted
    assert all(Outcomes(tmp_path).read(job) is not None for job in jobs)


@pytest.mark.parametrize("backend", list(CLUSTERS))
def test_a_cluster_of_its_own_ends_with_the_sweep(backend: Backend, tmp_path: Path) -> None:
    pytest.importorskip({"dask": "dask.distributed", "ray": "ray"}[backend], reason=f"needs bome[{backend}]")
    outcomes = run_jobs(grid("lls", "bome", {"steps": 5}, {}, 2), tmp_path, workers=2, backend=backend, batched=False)
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 2
    if backend == "ray":
        import ray

        assert not ray.is_initialized()
    else:
        from dask.distributed import Client

        with pytest.raises(ValueError, match="No clients found"):
            Client.current()
