"""Jobs: the runs of a sweep, and how each of them went.

done/KEY.json   the outcome of a job, written once it has ended
at_work/KEY/    states of an unfinished one, to continue from
"""

import contextlib
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bome.errors import BilevelError, ProblemError
from bome.runs.plan import Plan, build_task, parse_settings, plan_on
from bome.storage.jsonfile import plain
from bome.storage.lock import alone
from bome.storage.memo import Memo
from bome.tasks.task import Task

DONE, AT_WORK = "done", "at_work"

FAILED = "failed"
"""The third status of an outcome, beside those of a run."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        task: the name of the task.
        method: the name of the method, or `name:variant`.
        values: the settings given by hand.
        seed: of all that is random in the task.
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

    @property
    def title(self) -> str:
        """The job in words."""
        return f"{self.task} {self.method} {configuration(self.values)} seed {self.seed}"

    def plan(self) -> Plan:
        """The plan, with a task of its own."""
        return Stock().take(self)


@dataclass(frozen=True)
class Outcome:
    """How a job went.

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


def failure(job: Job, error: Exception) -> Outcome:
    """The outcome of a job that an error ended."""
    return Outcome(job, FAILED, str(error) if isinstance(error, BilevelError) else f"{type(error).__name__}: {error}")


def grid(task: str, method: str, values: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], seeds: int) -> list[Job]:
    """All combinations of the values of some settings, for seeds 0, 1, ..."""
    if not isinstance(seeds, int) or seeds < 1:
        raise ProblemError(f"seeds must be a whole number of at least 1, got {seeds!r}")
    doubled = sorted(set(axes) & set(values))
    if doubled:
        raise ProblemError(f"{doubled[0]} is given both as a setting and in the grid")
    return [
        Job(task, method, tuple(sorted({**values, **dict(zip(axes, choice, strict=True))}.items())), seed)
        for choice in itertools.product(*axes.values())
        for seed in range(seeds)
    ]


def jobs_of(spec: Mapping[str, Any]) -> list[Job]:
    """The jobs of a sweep, as its specification in `config.json` tells them."""
    jobs = grid(spec["task"], spec["method"], spec["set"], spec["grid"], spec["seeds"])
    return [replace(job, log_every=spec["log_every"]) for job in jobs]


def configuration(values: Iterable[tuple[str, Any]]) -> str:
    """Settings in words."""
    return " ".join(f"{key}={value}" for key, value in values)


class Stock:
    """Tasks that are built but not run yet, so that none is built twice."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[Any, ...], Task] = {}

    def look(self, job: Job) -> Plan:
        """The plan of a job, to be looked at only: others have the same task."""
        values = parse_settings(job.task, job.method, dict(job.values))
        key = (job.task, values.get("variant"), values.get("start"), job.seed)
        if key not in self._tasks:
            self._tasks[key] = build_task(job.task, values, job.seed)
        return plan_on(self._tasks[key], job.task, job.method, values, job.seed)

    def take(self, job: Job) -> Plan:
        """The plan of a job, to be run: its task leaves the stock."""
        plan = self.look(job)
        self._tasks = {key: task for key, task in self._tasks.items() if task is not plan.task}
        return plan


class Outcomes:
    """The outcomes of jobs in the folder of a sweep, and the places of those at work."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._memo = folder, Memo(folder / DONE)

    def read(self, job: Job) -> Outcome | None:
        """The outcome of a job that has ended; None if it has not. One that cannot be read counts as not ended."""
        stored = self._memo.read(job.key, plain(asdict(job)))
        return None if stored is None else Outcome(job, **stored)

    def write(self, outcome: Outcome) -> None:
        """Store an outcome, unless there is one: each job ends once."""
        if self.read(outcome.job) is None:
            value = {key: plain(x) for key, x in vars(outcome).items() if key != "job"}
            self._memo.write(outcome.job.key, plain(asdict(outcome.job)), value)

    def at_work(self, job: Job) -> Path:
        """Where the states of an unfinished job are."""
        return self.folder / AT_WORK / job.key

    def tidy(self, job: Job) -> None:
        """Remove what a kill between the outcome and the end has left of a job that has ended."""
        if self.read(job) is not None:
            shutil.rmtree(self.at_work(job), ignore_errors=True)

    @contextlib.contextmanager
    def alone(self, jobs: Sequence[Job], place: Path) -> Iterator[bool]:
        """Whether there is work left in this place, which other processes that want it wait for.

        A process that was orphaned by a kill may still be at it; the lock of one that died is free.
        """
        with alone(place):
            yield any(self.read(job) is None for job in jobs)
            shutil.rmtree(place, ignore_errors=True)
