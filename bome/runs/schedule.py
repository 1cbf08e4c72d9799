"""The schedule of a sweep: each job exactly once, as part of a batch, in this process or in a worker."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bome._typing import Report
from bome.core.pool import Backend, each
from bome.core.seeds import seed_everything
from bome.errors import NonFiniteError, RunInterruptedError, StorageError, WorkerError
from bome.loop import Record
from bome.runs import names
from bome.runs.batch import SAVE_EVERY, group, run_batch
from bome.runs.directory import DIVERGED, FINISHED
from bome.runs.jobs import FAILED, Job, Outcome, Outcomes, Stock, failure
from bome.runs.perform import perform
from bome.stopping import Progress

Follow = Callable[[Progress], None]
"""Called after every step."""


def run_jobs(
    jobs: Iterable[Job],
    folder: Path,
    report: Report = lambda what, done, total: None,
    workers: int = 1,
    backend: Backend = "loky",
    *,
    batched: bool = True,
    stock: Stock | None = None,
) -> dict[Job, Outcome]:
    """Run all jobs whose outcome is not in the folder yet, and read the others.

    Args:
        jobs: what to run; equal ones are run once.
        folder: of the sweep.
        report: called after every job, and about once a second.
        workers: processes, for jobs that do not go as a batch.
        backend: where they are.
        batched: whether jobs may go as a batch.
        stock: tasks that are built already.

    Returns:
        The outcomes, in the order of the jobs.
    """
    jobs, store, stock = list(dict.fromkeys(jobs)), Outcomes(folder), stock or Stock()
    outcomes = {job: outcome for job in jobs if (outcome := store.read(job)) is not None}
    missing = [job for job in jobs if job not in outcomes]

    def note(job: Job) -> None:
        outcomes[job] = store.read(job) or Outcome(job, FAILED, "its worker was lost")
        store.tidy(job)
        report(job.title, len(outcomes), len(jobs))

    def follow(what: str) -> Follow:
        return _seldom(lambda step: report(f"{what}, step {step}", len(outcomes), len(jobs)))

    for job in outcomes:
        store.tidy(job)
    if outcomes:
        report("already there", len(outcomes), len(jobs))
    groups, singles = group(jobs, missing, store, stock) if batched else ([], missing)
    for some in groups:
        run_batch(some, store, stock, follow(f"{some[0].task} {some[0].method}, {len(some)} runs at once"))
        for job in some:
            if job not in outcomes:
                note(job)
    if backend == "loky" and min(workers, len(singles)) < 2:
        for job in singles:
            run_job(job, store, stock, follow(job.title))
            note(job)
    else:
        for job in _by_workers(singles, folder, workers, backend):
            note(job)
    return {job: outcomes[job] for job in jobs}


def _seldom(look: Callable[[int], None], seconds: float = 1.0) -> Follow:
    """Look at the progress of a run about once a second."""
    due = time.monotonic() + seconds

    def after(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            look(progress.step)

    return after


def run_job(job: Job, store: Outcomes, stock: Stock, progress: Follow | None = None) -> None:
    """Run a job, or continue it, and store the outcome; nothing is done if it is there."""
    place = store.at_work(job)
    with store.alone([job], place) as left:
        if left:
            store.write(_outcome(job, place, stock, progress))


def _outcome(job: Job, place: Path, stock: Stock, progress: Follow | None) -> Outcome:
    try:
        plan = stock.take(job)
        seed_everything(job.seed)
        record = Record(place, SAVE_EVERY, resume=True)
        result = perform(plan, log_every=job.log_every, record=record, progress=progress)
        return Outcome(
            job,
            FINISHED,
            result.status,
            [dict(row) for row in result.history.rows],
            dict(result.evaluations),
            result.steps,
            result.seconds,
            plan.task.observe_afresh(plan.task.problem.point) if job.resolve else {},
            result.observed,
        )
    except NonFiniteError as error:
        return Outcome(job, DIVERGED, str(error), steps=error.step)
    except (StorageError, RunInterruptedError):
        raise
    except Exception as error:  # whatever is wrong with one run, the others go on
        return failure(job, error)


def _by_workers(jobs: Sequence[Job], folder: Path, workers: int, backend: Backend) -> Iterator[Job]:
    """Each job, as it ends; in the end those whose worker was lost again and again."""
    left = dict.fromkeys(jobs)
    work = partial(_work, folder=folder.resolve(), registered=names.registered())
    with contextlib.suppress(WorkerError), contextlib.closing(each(work, jobs, workers, backend)) as ends:
        for job, _ in ends:
            del left[job]
            yield job
    yield from left


def _work(job: Job, folder: Path, registered: Sequence[tuple[str, Any]]) -> None:
    """In a worker, which does not know the names that were registered in the main process."""
    for name, thing in registered:
        names.register(name, thing)
    run_job(job, Outcomes(folder), Stock())
