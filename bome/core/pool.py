"""The pool: work on many parts at once, by processes of this machine or by a Ray or Dask cluster."""

import contextlib
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Literal, TypeVar

from bome.core.threads import one_thread
from bome.errors import ProblemError, RunInterruptedError, WorkerError

Backend = Literal["loky", "ray", "dask"]

Part = TypeVar("Part")
Result = TypeVar("Result")

ATTEMPTS = 3
"""How often in a row lost parts are given out although none of them comes to its end."""


def each(
    work: Callable[[Part], Result], parts: Sequence[Part], workers: int, backend: Backend = "loky"
) -> Generator[tuple[Part, Result]]:
    """Each part with the result of the work on it, in the order in which they end.

    A worker computes with one thread. A part whose worker was lost or told to stop is given out again. When the main
    process is interrupted, workers save the runs that they are at, if these can be saved, and begin nothing else.

    Args:
        work: a function that processes can find by its name, or a `functools.partial` of one.
        parts: what is to be done.
        workers: processes; with one, or for one part, everything is done in this process, unless on a cluster.
        backend: where the workers are.

    Raises:
        WorkerError: workers are lost again and again.
    """
    left, attempts = dict(enumerate(parts)), 0
    if backend == "loky" and (workers < 2 or len(left) < 2):
        for part in parts:
            yield part, work(part)
        return
    while left:
        if attempts == ATTEMPTS:
            raise WorkerError
        attempts += 1
        with _cluster(backend, min(workers, len(left))) as give_out, contextlib.suppress(*_lost_worker(backend)):
            for number, ended, result in give_out(work, dict(left)):
                if ended:
                    attempts = 0
                    yield left.pop(number), result


def default_workers() -> int:
    """As many processes as the machine has processors, but not more than two."""
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


# --- in a worker ------------------------------------------------------------------------------------------------------

End = tuple[int, bool, Any]
"""The number of a part, whether the work on it has ended, and the result."""


class _Here:
    """This process as a worker."""

    own, busy, stopped = False, False, False


def _begin() -> None:
    """Of this pool alone: leave it to the main process to react to Ctrl-C, and heed its word to stop."""
    _Here.own = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    _Here.stopped = True
    if _Here.busy:
        raise SystemExit(128 + number)


def _end(work: Callable[[Any], Any], number: int, part: Any) -> End:
    """The work on a part, unless this worker was told to stop."""
    try:
        _Here.busy = True
        if not _Here.stopped:
            with one_thread():
                return number, True, work(part)
    except RunInterruptedError:
        _Here.stopped = _Here.own  # workers of a cluster go on with other work
    except SystemExit:
        if not _Here.stopped:
            raise
    finally:
        _Here.busy = False
    return number, False, None


# --- clusters ---------------------------------------------------------------------------------------------------------

GiveOut = Callable[[Callable[[Any], Any], Mapping[int, Any]], Iterator[End]]
"""Hands numbered parts to workers and gives back how each of them ended."""


def _lost_worker(backend: Backend) -> tuple[type[BaseException], ...]:
    """What a backend raises when a worker is gone and it does not hand out the work again by itself."""
    if backend == "ray":
        from ray.exceptions import LocalRayletDiedError, NodeDiedError, ObjectLostError, WorkerCrashedError

        return (WorkerCrashedError, NodeDiedError, LocalRayletDiedError, ObjectLostError)
    if backend == "dask":
        from dask.distributed import KilledWorker

        return (KilledWorker,)
    from joblib.externals.loky import BrokenProcessPool

    return (BrokenProcessPool,)


@contextlib.contextmanager
def _cluster(backend: Backend, workers: int) -> Iterator[GiveOut]:
    """Workers, for a while: of this machine, of the cluster that the environment names, or of one started here."""
    opened = {"loky": _loky, "ray": _ray, "dask": _dask}[backend](workers)
    with contextlib.ExitStack() as stack:
        try:
            give_out = stack.enter_context(opened)
        except ImportError as error:
            raise ProblemError(f"backend {backend} is not installed: pip install 'bome[{backend}]'") from error
        yield give_out


@contextlib.contextmanager
def _loky(workers: int) -> Iterator[GiveOut]:
    """Processes of this machine that end with the work."""
    from joblib.externals.loky import ProcessPoolExecutor, as_completed

    others = multiprocessing.active_children()
    with ProcessPoolExecutor(workers, initializer=_begin) as pool:

        def give_out(work: Callable[[Any], Any], parts: Mapping[int, Any]) -> Iterator[End]:
            waiting = [pool.submit(_end, work, number, part) for number, part in parts.items()]
            try:
                for task in as_completed(waiting):
                    yield task.result()
            finally:
                for task in waiting:
                    task.cancel()

        try:
            yield give_out
        except BaseException:  # an interruption does not wait for the parts that are under way
            for worker in multiprocessing.active_children():
                if worker not in others:
                    worker.terminate()
            raise


@contextlib.contextmanager
def _dask(workers: int) -> Iterator[GiveOut]:
    """The cluster at DASK_SCHEDULER_ADDRESS, or one on this machine that ends with the work."""
    import joblib
    from dask.distributed import Client

    def give_out(work: Callable[[Any], Any], parts: Mapping[int, Any]) -> Iterator[End]:
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_end)(work, number, part) for number, part in parts.items())

    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    opened = Client(address, **({} if address else options))
    with opened as client, joblib.parallel_config(backend="dask", client=client):
        yield give_out


@contextlib.contextmanager
def _ray(workers: int) -> Iterator[GiveOut]:
    """The cluster that is connected or at RAY_ADDRESS, or one on this machine that ends with the work.

    Through Ray's own tasks: joblib's backend for Ray gives nothing back before all have ended, and a lost worker takes
    everything with it.
    """
    import ray

    mine = not ray.is_initialized()
    if mine:
        local = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        options: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else local
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    end = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(_end)

    def give_out(work: Callable[[Any], Any], parts: Mapping[int, Any]) -> Iterator[End]:
        waiting = [end.remote(work, number, part) for number, part in parts.items()]
        while waiting:
            (ready,), waiting = ray.wait(waiting, num_returns=1)
            yield ray.get(ready)

    try:
        yield give_out
    finally:
        if mine:
            ray.shutdown()
