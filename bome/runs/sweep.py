"""Sweeps: many configurations of a method on a task, over several seeds, each run exactly once.

Runs of a first-order or separable method that differ only in seed and step size of v go as one batch in one process,
where the task can stack them: their products with the data become one wide product. All others go one by one to the
workers of joblib, on this machine or on a Dask cluster, or as tasks of a Ray cluster.

    sweep.json      what is swept
    done/KEY.json   the outcome of a run, written once it has ended
    at_work/        states of unfinished runs, to continue from
"""

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import SGD

from bome._checks import check_count
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import BilevelError, NonFiniteError, ProblemError, RunInterruptedError, StorageError
from bome.loop import Record, Result, run
from bome.methods import Batched
from bome.methods.base import Batches, Info, Step
from bome.methods.batched import batchable
from bome.oracles import Oracle
from bome.runs.directory import DIVERGED, FINISHED, checked_plan
from bome.runs.perform import solve
from bome.runs.plan import Plan
from bome.stopping import FirstOf, MaxSteps, Progress
from bome.storage.atomic import write_atomic
from bome.storage.jsonfile import plain
from bome.tasks.task import Stack, Task

Backend = Literal["loky", "ray", "dask"]

WIDEST = 20
"""The most runs in one batch: beyond that the product gains nothing and memory grows."""

WIDE = 5
"""So many runs of one seed make a batch of their own: all of them use the same samples, and with more rows the product
gains less than is lost on samples that only other seeds use."""

SCALED = "outer_lr"
"""In this setting the runs of one batch may differ, beside the seed; step sizes of θ enter the steps of methods."""

ATTEMPTS = 3
"""How often in a row work that was lost with a worker is given out without that anything comes of it."""

CRITERIA = ("val2_loss", "distance_to_optimum", "kkt", "f")
"""What a choice goes by, where it is known: the loss on validation set 2, the distance to the known solution, how far
(v, θ) is from stationary. f comes last: it is lowest where θ does not minimise g."""

SAVE_EVERY = 100
"""Steps between states to continue from."""

SPEC, BATCH = "sweep.json", "batch.json"

FAILED = "failed"
"""The third status of an outcome, beside those of a run."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        task: the name of the task.
        method: the name of the method, or `name:variant`.
        values: the settings given by hand.
        seed: of whatever the task draws.
        log_every: steps between rows of its history.
        resolve: whether the inner problem is also solved afresh at the end.
    """

    task: str
    method: str
    values: tuple[tuple[str, Any], ...]
    seed: int
    log_every: int = 10
    resolve: bool = False

    @property
    def key(self) -> str:
        """A name of its own, the same for equal jobs."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return f"{self.task}-{self.method.replace(':', '-')}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def made(self) -> Plan:
        """The plan, checked."""
        return checked_plan(self.task, self.method, dict(self.values), self.seed)


@dataclass(frozen=True)
class Outcome:
    """How a run went.

    Attributes:
        job: what was run.
        status: "finished", "diverged" or "failed".
        reason: why, where it is not finished.
        history: the logged rows, the last one of the end; of a run in a batch, those before it diverged.
        evaluations: how often the method evaluated f, g and second-order products.
        steps: outer steps done before the end, or before it diverged.
        seconds: time spent in its steps; of a batch, an equal part for each run.
        resolved: what is observed with the inner problem solved afresh.
        observed: what the task shows of the end, such as accuracies.
    """

    job: Job
    status: str
    reason: str
    history: list[dict[str, Any]] = field(default_factory=list)
    evaluations: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0
    resolved: dict[str, float] = field(default_factory=dict)
    observed: dict[str, float] = field(default_factory=dict)

    @property
    def last(self) -> dict[str, Any]:
        """The row of the end."""
        return self.history[-1] if self.history else {}


Report = Callable[[str, int, int], None]
"""Called with (what has ended or is under way, runs done, runs in all)."""

Follow = Callable[[Progress], None]
"""Called after every step."""


def grid(task: str, method: str, values: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], seeds: int) -> list[Job]:
    """All combinations of the values of some settings, for seeds 0, 1, ..."""
    check_count("seeds", seeds)
    doubled = sorted(set(axes) & set(values))
    if doubled:
        raise ProblemError(f"{doubled[0]} is given both as a setting and in the grid")
    return [
        Job(task, method, tuple(sorted({**values, **dict(zip(axes, choice, strict=True))}.items())), seed)
        for choice in itertools.product(*axes.values())
        for seed in range(seeds)
    ]


def carry_out(
    jobs: Iterable[Job],
    folder: Path,
    report: Report = lambda what, done, total: None,
    workers: int = 1,
    backend: Backend = "loky",
    batched: bool = True,
) -> dict[Job, Outcome]:
    """Run all jobs whose outcome is not in the folder yet, and read the others.

    Args:
        jobs: what to run; equal ones are run once.
        folder: of the sweep.
        report: told of every run that ends.
        workers: processes, for runs that do not go as a batch.
        backend: of joblib, for these.
        batched: whether runs may go as a batch.
    """
    jobs = list(dict.fromkeys(jobs))
    outcomes = {job: found for job in jobs if (found := read(folder, job)) is not None}
    missing = [job for job in jobs if job not in outcomes]

    def note(ended: Iterable[Job]) -> None:
        for job in ended:
            found = read(folder, job)
            outcomes[job] = found if found is not None else Outcome(job, FAILED, "its worker was lost")
            _tidy(folder, job)
            report(title(job), len(outcomes), len(jobs))

    def follow(what: str) -> Follow:
        return _seldom(lambda step: report(f"{what}, step {step}", len(outcomes), len(jobs)))

    for job in outcomes:
        _tidy(folder, job)
    if outcomes:
        report("found", len(outcomes), len(jobs))
    groups, singles = _grouped(jobs, missing, folder) if batched else ([], missing)
    for group in groups:
        run_batch(group, folder, follow(f"{group[0].task} {group[0].method}, {len(group)} runs at once"))
        note(job for job in group if job not in outcomes)
    for job in _in_workers(singles, folder, workers, backend, follow):
        note([job])
    return outcomes


def prepare(folder: Path, told: Mapping[str, Any]) -> None:
    """Make the folder of a sweep and write what is swept; one that holds the same sweep is continued.

    Raises:
        ProblemError: the folder holds something else.
    """
    other, text = "choose another --out", json.dumps(plain(dict(told)), indent=1, ensure_ascii=False) + "\n"
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is a file: {other}")
    try:
        found: str | None = (folder / SPEC).read_text(encoding="utf-8")
    except FileNotFoundError:
        found = None
    if found is None and folder.is_dir() and any(folder.iterdir()):
        raise ProblemError(f"{folder} is not empty and not the folder of a sweep: {other}")
    if found is not None and found != text:
        raise ProblemError(f"{folder} holds another sweep: {other}")
    write_atomic(folder / SPEC, text)


def _seldom(look: Callable[[int], None], seconds: float = 1.0) -> Follow:
    """Look at the progress of a run about once a second."""
    due = time.monotonic() + seconds

    def after(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + seconds
            look(progress.step)

    return after


def read(folder: Path, job: Job) -> Outcome | None:
    """The outcome of a job that has ended; None if it has not. One that cannot be read counts as not ended."""
    try:
        found = json.loads(_place(folder, job).read_text(encoding="utf-8"))
        return Outcome(job, **{key: found[key] for key in _STORED})
    except (OSError, ValueError, KeyError, TypeError):
        return None


_STORED = ("status", "reason", "history", "evaluations", "steps", "seconds", "resolved", "observed")


def _place(folder: Path, job: Job) -> Path:
    return folder / "done" / f"{job.key}.json"


def _write(folder: Path, outcome: Outcome) -> None:
    """Store an outcome, unless there is one: each run ends once."""
    if read(folder, outcome.job) is None:
        write_atomic(_place(folder, outcome.job), json.dumps(plain(asdict(outcome)), ensure_ascii=False) + "\n")


def _at_work(folder: Path, job: Job) -> Path:
    return folder / "at_work" / job.key


def _tidy(folder: Path, job: Job) -> None:
    """Remove what a kill between the outcome and the end has left of a run that has ended."""
    if read(folder, job) is not None:
        shutil.rmtree(_at_work(folder, job), ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path, jobs: Sequence[Job], place: Path) -> Iterator[bool]:
    """Whether there is work left in this place, which other processes that want it wait for.

    A process that was orphaned by a kill may still be at it; the lock of one that died is free.
    """
    import fcntl  # POSIX only, as `bome.storage.checkpoint` is; the package can be imported elsewhere

    try:
        place.mkdir(parents=True, exist_ok=True)
        file = (place / "lock").open("a")
    except OSError as error:
        raise StorageError(f"cannot write {place}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield any(read(folder, job) is None for job in jobs)
        shutil.rmtree(place, ignore_errors=True)


def title(job: Job) -> str:
    """A run in words."""
    return f"{job.task} {job.method} {configuration(job.values)} seed {job.seed}"


def configuration(values: Iterable[tuple[str, Any]]) -> str:
    """Settings in words."""
    return " ".join(f"{key}={value}" for key, value in values)


# --- one by one -------------------------------------------------------------------------------------------------------


def run_one(job: Job, folder: Path, progress: Follow | None = None) -> None:
    """Run a job, or continue it, and store the outcome; nothing is done if it is there."""
    place = _at_work(folder, job)
    with _alone(folder, [job], place) as left:
        if left:
            _write(folder, _outcome(job, place, progress))


def _outcome(job: Job, place: Path, progress: Follow | None) -> Outcome:
    try:
        made = job.made()
        torch.manual_seed(job.seed)
        record = Record(place, SAVE_EVERY, resume=True)
        result = solve(made, log_every=job.log_every, record=record, progress=progress)
        task, point = made.task, made.task.problem.point
        rows = [dict(row) for row in result.history.rows]
        observed = {} if task.observe is None else task.observe(point)
        resolved = task.observed_afresh(point) if job.resolve else {}
        return Outcome(
            job, FINISHED, result.status, rows, dict(result.evaluations), result.steps, result.seconds, resolved,
            observed,
        )  # fmt: skip
    except NonFiniteError as error:
        return Outcome(job, DIVERGED, str(error), steps=error.step)
    except (StorageError, RunInterruptedError):
        raise
    except Exception as error:  # whatever is wrong with one run, the others go on
        return _failure(job, error)


def _failure(job: Job, error: Exception) -> Outcome:
    return Outcome(job, FAILED, str(error) if isinstance(error, BilevelError) else f"{type(error).__name__}: {error}")


def _in_workers(
    jobs: Sequence[Job], folder: Path, workers: int, backend: Backend, follow: Callable[[str], Follow]
) -> Iterator[Job]:
    """Each job, as it ends; what is lost with a worker is given out again."""
    if workers < 2 and backend == "loky":
        for job in jobs:
            run_one(job, folder, follow(title(job)))
            yield job
        return
    left, attempts = list(jobs), 0
    while left and attempts < ATTEMPTS:
        attempts += 1
        with _cluster(backend, workers) as give_out, contextlib.suppress(*_lost_worker(backend)):
            for job in give_out(list(left), folder.resolve()):
                if read(folder, job) is not None:
                    attempts = 0
                    left.remove(job)
                    yield job
        ended = [job for job in left if read(folder, job) is not None]
        left = [job for job in left if job not in ended]
        yield from ended
    yield from left


def _work(job: Job, folder: Path) -> Job:
    """In a worker: one thread each, since there are as many of them as processors.

    One that is told to stop leaves its state and no outcome.
    """
    torch.set_num_threads(1)
    with contextlib.suppress(RunInterruptedError):
        run_one(job, folder)
    return job


GiveOut = Callable[[Sequence[Job], Path], Iterable[Job]]
"""Hands jobs to workers and gives each back as it ends."""


def _lost_worker(backend: Backend = "loky") -> tuple[type[BaseException], ...]:
    """What a backend raises when a worker is gone and it does not hand out the work again by itself."""
    if backend == "ray":
        from ray.exceptions import LocalRayletDiedError, NodeDiedError, ObjectLostError, WorkerCrashedError

        return (WorkerCrashedError, NodeDiedError, LocalRayletDiedError, ObjectLostError)
    if backend == "dask":
        from dask.distributed import KilledWorker

        return (KilledWorker,)
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    return (TerminatedWorkerError,)


@contextlib.contextmanager
def _cluster(backend: Backend, workers: int) -> Iterator[GiveOut]:
    """Workers, for a while: of this machine, of the cluster that the environment names, or of one started here."""
    try:
        opened = {"loky": _loky, "ray": _ray, "dask": _dask}[backend](workers)
        give_out = opened.__enter__()
    except ImportError as error:
        raise ProblemError(f"backend {backend} is not installed: pip install 'bome[{backend}]'") from error
    try:
        yield give_out
    finally:
        opened.__exit__(None, None, None)


def _by_joblib(jobs: Sequence[Job], folder: Path, **options: Any) -> Iterable[Job]:
    import joblib

    parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, **options)
    found: Iterable[Job] = parallel(joblib.delayed(_work)(job, folder) for job in jobs)
    return found


@contextlib.contextmanager
def _loky(workers: int) -> Iterator[GiveOut]:
    yield lambda jobs, folder: _by_joblib(jobs, folder, n_jobs=workers)


@contextlib.contextmanager
def _dask(workers: int) -> Iterator[GiveOut]:
    """The cluster at DASK_SCHEDULER_ADDRESS, or one on this machine that ends with the sweep."""
    import joblib
    from dask.distributed import Client

    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    opened = Client(address, **({} if address else options))
    with opened as client, joblib.parallel_config(backend="dask", client=client):
        yield _by_joblib


@contextlib.contextmanager
def _ray(workers: int) -> Iterator[GiveOut]:
    """The cluster that is connected or at RAY_ADDRESS, or one on this machine that ends with the sweep.

    Through Ray's own tasks: joblib's backend for Ray gives nothing back before all have ended, and a lost worker takes
    everything with it.
    """
    import ray

    mine = not ray.is_initialized()
    if mine:
        local = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        options: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else local
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    work = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(_work)

    def give_out(jobs: Sequence[Job], folder: Path) -> Iterator[Job]:
        waiting = {work.remote(job, folder): job for job in jobs}
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(ready)
            ray.get(ready)
            yield job

    try:
        yield give_out
    finally:
        if mine:
            ray.shutdown()


# --- as a batch -------------------------------------------------------------------------------------------------------


def _grouped(jobs: Sequence[Job], missing: Sequence[Job], folder: Path) -> tuple[list[list[Job]], list[Job]]:
    """Jobs that run as a batch together, those of interrupted batches first, and those that do not."""
    groups = _interrupted(jobs, folder)
    taken = {job for group in groups for job in group}
    like: dict[Job, list[Job]] = {}
    for job in missing:
        if job not in taken:
            shared = tuple((key, value) for key, value in job.values if key != SCALED)
            like.setdefault(replace(job, values=shared, seed=0), []).append(job)
    singles: list[Job] = []
    for each in like.values():
        if len(each) > 1 and _stackable(each[0]):
            for some in _by_seed(each):
                count = math.ceil(len(some) / WIDEST)
                groups += [some[i::count] for i in range(count)]
        else:
            singles += each
    return groups, singles


def _by_seed(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each seed where they make a batch of their own, and all others together."""
    seeds: dict[int, list[Job]] = {}
    for job in jobs:
        seeds.setdefault(job.seed, []).append(job)
    rest = [job for job in jobs if len(seeds[job.seed]) < WIDE]
    return [some for some in seeds.values() if len(some) >= WIDE] + ([rest] if rest else [])


def _interrupted(jobs: Sequence[Job], folder: Path) -> list[list[Job]]:
    """The batches that were under way when the sweep was killed, of runs that are wanted again."""
    by_key = {job.key: job for job in jobs}
    groups: list[list[Job]] = []
    for path in sorted((folder / "at_work").glob(f"*/{BATCH}")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            groups.append([by_key[key] for key in json.loads(path.read_text(encoding="utf-8"))])
    return groups


def _stackable(job: Job) -> bool:
    try:
        made = job.made()
    except StorageError:
        raise
    except BilevelError:
        return False  # says so when it is run
    whole = made.settings.batch == made.settings.outer_batch == made.settings.decay == 0
    alike = getattr(made.method, "geometry", "euclidean") == "euclidean"  # else the step size of v enters the step
    fits = made.task.stack is not None and batchable(made.method) and made.tuner is None
    return fits and whole and alike


@dataclass(frozen=True)
class _Watched(Batched):
    """A batch whose state also says how many steps each run `lived`, and which knows when none is alive."""

    memory: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """As the batch."""
        state = super().init(oracle, point)
        return {**state, "lived": (torch.zeros_like(state["alive"][0], dtype=torch.long),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """As the batch; where no run is alive, what is measured is 0, so that this is no failure."""
        lived = state["lived"][0]
        step = super().step(oracle, point, {k: x for k, x in state.items() if k != "lived"}, batches, metric)
        alive = step.state["alive"][0]
        self.memory["alive"] = alive
        measured = [None if x is None else torch.where(alive.any(), x, 0.0) for x in step.info]
        return step._replace(state={**step.state, "lived": (lived + alive,)}, info=Info(*measured))  # type: ignore[arg-type]

    def none_alive(self, progress: Progress) -> str | None:
        """A rule for the end of the run."""
        return "all runs diverged" if "alive" in self.memory and not self.memory["alive"].any() else None


def run_batch(jobs: Sequence[Job], folder: Path, progress: Follow | None = None) -> None:
    """Run jobs as one batch, or continue it, and store the outcomes that are not there yet."""
    place = _at_work(folder, _batch_job(jobs))
    with _alone(folder, jobs, place) as left:
        if not left:
            return
        write_atomic(place / BATCH, json.dumps([job.key for job in jobs]))
        try:
            outcomes = _outcomes(jobs, place, progress)
        except (StorageError, RunInterruptedError):
            raise
        except Exception as error:  # whatever is wrong with one batch, the others go on
            outcomes = [_failure(job, error) for job in jobs]
        for outcome in outcomes:
            _write(folder, outcome)


def _outcomes(jobs: Sequence[Job], place: Path, progress: Follow | None) -> list[Outcome]:
    tasks: dict[int, Task] = {}
    plans: list[Plan] = []
    for job in jobs:
        made = job.made()
        plans.append(replace(made, task=tasks.setdefault(job.seed, made.task)))
    first = plans[0].settings
    make_stack = plans[0].task.stack
    assert make_stack is not None, "only stackable jobs are grouped"  # noqa: S101 - for the type checker
    stack = make_stack([made.task for made in plans])
    scales = tuple(made.settings.outer_lr / first.outer_lr for made in plans)
    method = _Watched(plans[0].method, own_data=stack.dims, v_scale=scales)
    result = run(
        stack.problem,
        method,
        outer_opt=SGD(stack.problem.v.leaves, first.outer_lr, momentum=first.momentum),
        inner_opt=SGD(stack.problem.theta.leaves, first.theta_lr, momentum=first.momentum),
        data=stack.data,
        stop=FirstOf((MaxSteps(first.steps), method.none_alive)),
        oracle=method.oracle,
        observe=lambda problem: _observed(plans, stack),
        log_every=jobs[0].log_every,
        record=Record(place, SAVE_EVERY, resume=True),
        progress=progress,
    )
    return [_own(job, made.task, i, result, stack) for i, (job, made) in enumerate(zip(jobs, plans, strict=True))]


def _own(job: Job, task: Task, i: int, result: Result, stack: Stack) -> Outcome:
    """The outcome of one run of a batch."""
    state, runs = result.state["state"], len(stack.rows)
    lives, lived = bool(state["alive"][0][i]), int(state["lived"][0][i])
    end = result.steps if lives else lived
    rows = [own for row in result.history.rows if (own := _own_row(row, i, runs))["step"] <= end]
    observed = {} if not lives or task.observe is None else task.observe(stack.point(i))
    return Outcome(
        job,
        FINISHED if lives else DIVERGED,
        result.status if lives else f"step {lived}: its direction or a loss is not finite; try smaller step sizes",
        rows,
        {kind: n * lived // result.steps for kind, n in result.evaluations.items()},
        lived,
        result.seconds / runs,
        task.observed_afresh(stack.point(i)) if job.resolve and lives else {},
        observed,
    )


def _batch_job(jobs: Sequence[Job]) -> Job:
    """Stands for the whole batch in the names of files."""
    return replace(jobs[0], values=tuple((job.key, job.seed) for job in jobs))


def _observed(plans: Sequence[Plan], stack: Stack) -> dict[str, float]:
    """What each run shows, its number before the name."""
    rows: dict[str, float] = {}
    for i, made in enumerate(plans):
        observe = made.task.observe
        if observe is not None:
            rows |= {f"{i}/{name}": value for name, value in observe(stack.point(i)).items()}
    return rows


def _own_row(row: Mapping[str, Any], i: int, runs: int) -> dict[str, Any]:
    """The part of a row that belongs to one run, and its share of the time."""
    own = {key.partition("/")[2]: value for key, value in row.items() if key.startswith(f"{i}/")}
    shared = {key: row[key] for key in row if key == "step" or key.startswith("n_")}
    return {**shared, "seconds": row["seconds"] / runs, **own}


# --- choosing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A configuration and how its runs went.

    Attributes:
        values: its settings.
        outcomes: of all seeds.
        score: the mean of what chooses, over the seeds; infinite if a run did not finish.
    """

    values: tuple[tuple[str, Any], ...]
    outcomes: tuple[Outcome, ...]
    score: float

    def mean(self, name: str) -> tuple[float, float | None]:
        """Mean and standard error of a quantity at the end, over the seeds that have it."""
        found = [outcome.last.get(name) for outcome in self.outcomes if outcome.status == FINISHED]
        return mean_and_error([value for value in found if value is not None])


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard error; none from a single value."""
    if not values:
        return math.nan, None
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return statistics.fmean(values), error


def ranked(outcomes: Iterable[Outcome]) -> list[Choice]:
    """The configurations, best first by their `criterion`; never by test."""
    by_values: dict[tuple[tuple[str, Any], ...], list[Outcome]] = {}
    for outcome in (everything := tuple(outcomes)):
        by_values.setdefault(outcome.job.values, []).append(outcome)
    by = criterion(everything)
    choices = [Choice(values, tuple(found), _score(found, by)) for values, found in by_values.items()]
    return sorted(choices, key=lambda choice: choice.score)


def criterion(outcomes: Sequence[Outcome]) -> str:
    """By what these runs are judged: the first of `CRITERIA` that any of them tells."""
    told = [name for name in CRITERIA if any(outcome.last.get(name) is not None for outcome in outcomes)]
    return told[0] if told else CRITERIA[-1]


def _score(outcomes: Sequence[Outcome], by: str) -> float:
    scores = [outcome.last.get(by) for outcome in outcomes]
    if any(outcome.status != FINISHED for outcome in outcomes) or any(score is None for score in scores):
        return math.inf
    return statistics.fmean(float(score) for score in scores if score is not None)
