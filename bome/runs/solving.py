"""Folders of `bome solve`: which task is solved with what budget, and what came out.

config.json      the task, the budget and the seed; written first
metrics.jsonl    one object per evaluation of the value function; with batches per outer step
checkpoints/     states to continue from
summary.json     the outcome; written last
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bome._checks import check_count, check_positive, known
from bome._typing import Leaves
from bome.arms.result import Trained
from bome.core.seeds import seed_everything
from bome.core.trees import Pair
from bome.data.streams import Data
from bome.errors import ProblemError, StorageError
from bome.loop import Record, Result
from bome.methods.probe import Probe
from bome.nested.result import Found, Solution
from bome.nested.session import INTERRUPTED
from bome.nested.solve import BUDGET, BUDGET_SAMPLED, horizon_for, solve
from bome.runs.directory import FINISHED
from bome.runs.names import TASKS
from bome.runs.plan import build_task, parse_settings
from bome.stopping import Progress
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, Folder
from bome.tasks.task import Task

SOLVE = "solve"
"""The kind of folder."""

SAVE_EVERY = 20
"""Evaluations of the value function between checkpoints."""

BATCHES = ("batch", "outer_batch")
"""Settings of a task that has batches."""

SHOWN = 100
"""Entries of a variable that a summary holds at the most; the checkpoints have all of them."""


@dataclass(frozen=True)
class Assignment:
    """What is to be solved, and for how long; this decides the result.

    Attributes:
        task: the name of the task.
        set: its settings, `variant` and `start`, as far as they are given; where the task has batches also `batch` and
            `outer_batch`.
        seed: of the task and of random starts.
        budget: the most evaluations; by default as `bome.solve` has it.
        runs: the most runs from different starts.
        seconds: the most seconds.
        horizon: for how many steps θ is trained when a v is judged, where the task has batches.
    """

    task: str
    set: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    budget: int | None = None
    runs: int | None = None
    seconds: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        known("task", self.task, TASKS)
        for key in self.set:
            known("setting of a task", key, ("variant", "start", *BATCHES))
        for name in ("budget", "runs", "horizon"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.seconds is not None:
            check_positive("seconds", self.seconds)

    def build(self) -> Task:
        """The task, with fresh variables."""
        task = build_task(self.task, self._settings(), self.seed)
        refused = [name for name in ("horizon",) if getattr(self, name) is not None] + [
            x for x in BATCHES if x in self.set
        ]
        if task.streams is None and refused:
            raise ProblemError(f"{self.task} has no batches: leave {refused[0]} out")
        if task.streams is not None and self.runs is not None:
            raise ProblemError(f"{self.task} has batches, so there are no runs from different starts: leave runs out")
        if task.streams is not None:
            horizon_for(self.most(task), self.horizon)
        return task

    def most(self, task: Task) -> int:
        """The budget."""
        return self.budget if self.budget is not None else BUDGET if task.streams is None else BUDGET_SAMPLED

    def data(self, task: Task) -> Data | None:
        """The batches; None where the losses hold all of their data."""
        if task.streams is None:
            return None
        sizes = {key: value for key, value in self._settings().items() if key in BATCHES}
        return task.streams(Probe, replace(task.settings, **sizes))

    def _settings(self) -> dict[str, Any]:
        """Those that are given, as values."""
        return parse_settings(self.task, "bome", self.set)

    def command(self, folder: Path, jobs: int) -> str:
        """The complete command."""
        options = {key: value for key, value in asdict(self).items() if key != "task"}
        return command_line(SOLVE, self.task, **options, jobs=None if jobs == 1 else jobs, out=folder)


def read_assignment(folder: Path) -> Assignment:
    """What a folder was made for.

    Raises:
        ProblemError: it is not that of a solution.
        StorageError: it is damaged.
    """
    spec = Folder(folder).config(SOLVE).spec
    try:
        return Assignment(**spec)
    except (TypeError, ProblemError) as error:
        raise StorageError(f"{folder / CONFIG} is damaged: it does not tell what was to be solved") from error


def solve_into(
    folder: Path,
    assignment: Assignment,
    *,
    jobs: int = 1,
    save_every: int = SAVE_EVERY,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[dict[str, Any], int | None]:
    """Solve a task in a folder, or go on there; the summary is written unless the work was interrupted.

    Returns:
        The summary, and the number of the signal that interrupted the work, if one did.
    """
    task = assignment.build()
    seed_everything(assignment.seed)
    data, record = assignment.data(task), Record(folder, save_every, resume=True)
    budget, seconds, seed = assignment.most(task), assignment.seconds, assignment.seed
    result: Solution | Trained
    if data is None:
        result = solve(
            task.problem, budget=budget, seconds=seconds, runs=assignment.runs, seed=seed, jobs=jobs, record=record,
            progress=progress,
        )  # fmt: skip
    else:
        result = solve(
            task.problem, data=data, budget=budget, seconds=seconds, horizon=assignment.horizon, seed=seed,
            record=record, progress=progress,
        )  # fmt: skip
    summary, number = summarised(task, result), signal_of(result)
    if number is None:
        Folder(folder).finish(summary)
    return summary, number


def signal_of(result: Result) -> int | None:
    """The number of the signal that ended a search; None if it came to its end."""
    found = result.status.startswith(INTERRUPTED)
    return signal.Signals[result.status.split()[-1]].value if found else None


def summarised(task: Task, result: Solution | Trained) -> dict[str, Any]:
    """The outcome as JSON holds it."""
    point, optimum = task.problem.point, task.optimum
    return {
        "status": FINISHED if signal_of(result) is None else "interrupted",
        "reason": result.status,
        "steps": result.steps,
        "f": result.f,
        "q": result.q,
        "v": _entries(point.v),
        "theta": _entries(point.theta),
        "distance_to_optimum": None if optimum is None else optimum.distance(point),
        "optimum": None if optimum is None else {"f": optimum.f, "text": optimum.text},
        "observed": _observed(task, point),
        "certificate": result.certificate.to_dict(),
        **(_searched(result) if isinstance(result, Solution) else _raced(result)),
        "evaluations": dict(result.evaluations),
        "spent": dict(result.spent),
        "seconds": result.seconds,
        "tuned": dict(result.tuned),
    }


def _searched(result: Solution) -> dict[str, Any]:
    """What only a search has."""
    return {
        "runs": result.runs,
        "found": [_found(each) for each in result.found],
        "ties": None if result.ties is None else dict(result.ties._asdict()),
        "prices": {kind: values.tolist() for kind, values in result.prices.items()},
    }


def _raced(result: Trained) -> dict[str, Any]:
    """What only a race has."""
    arms = {name: {"F": refit.F, "live": refit.f, "steps": refit.steps} for name, refit in result.arms.items()}
    return {"arm": result.arm, "live": result.live, "arms": arms, "warnings": list(result.warnings)}


def _observed(task: Task, point: Pair) -> Mapping[str, float]:
    return {} if task.observe is None else task.observe(point)


def _found(each: Found) -> dict[str, Any]:
    return {"f": each.f, "q": each.q, "runs": each.runs, "v": _entries(each.v), "theta": _entries(each.theta)}


def _entries(leaves: Leaves) -> list[float] | None:
    """All entries of a variable in a row; None of a large one."""
    if sum(leaf.numel() for leaf in leaves) > SHOWN:
        return None
    return [x for leaf in leaves for x in leaf.detach().double().reshape(-1).tolist()]
