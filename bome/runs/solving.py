"""Folders of `bome solve`: which task is solved with what budget, and what came out.

config.json      the task, the budget and the seed; written first
metrics.jsonl    one object per evaluation of the value function
checkpoints/     states to continue from
summary.json     the outcome; written last
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bome._checks import check_count, check_positive, known
from bome._typing import Leaves
from bome.core.seeds import seed_everything
from bome.core.trees import Pair
from bome.errors import ProblemError, StorageError
from bome.loop import Record
from bome.nested.result import Found, Solution
from bome.nested.session import INTERRUPTED
from bome.nested.solve import BUDGET, solve
from bome.runs.directory import FINISHED
from bome.runs.names import TASKS
from bome.runs.plan import build_task
from bome.stopping import Progress
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, Folder
from bome.tasks.task import Task

SOLVE = "solve"
"""The kind of folder."""

SAVE_EVERY = 20
"""Evaluations of the value function between checkpoints."""

SHOWN = 100
"""Entries of a variable that a summary holds at the most; the checkpoints have all of them."""


@dataclass(frozen=True)
class Assignment:
    """What is to be solved, and for how long; this decides the result.

    Attributes:
        task: the name of the task.
        set: its settings, `variant` and `start`, as far as they are given.
        seed: of the task and of random starts.
        budget: the most evaluations.
        runs: the most runs from different starts.
        seconds: the most seconds.
    """

    task: str
    set: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    budget: int = BUDGET
    runs: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        known("task", self.task, TASKS)
        for key in self.set:
            known("setting of a task", key, ("variant", "start"))
        check_count("budget", self.budget)
        if self.runs is not None:
            check_count("runs", self.runs)
        if self.seconds is not None:
            check_positive("seconds", self.seconds)

    def build(self) -> Task:
        """The task, with fresh variables."""
        task = build_task(self.task, self.set, self.seed)
        if task.streams is not None:
            raise ProblemError(
                f"{self.task} draws minibatches, and solve wants all data at once: take 'bome run {self.task}'"
            )
        return task

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
    result = solve(
        task.problem,
        budget=assignment.budget,
        seconds=assignment.seconds,
        runs=assignment.runs,
        seed=assignment.seed,
        jobs=jobs,
        record=Record(folder, save_every, resume=True),
        progress=progress,
    )
    summary, number = summarised(task, result), signal_of(result)
    if number is None:
        Folder(folder).finish(summary)
    return summary, number


def signal_of(result: Solution) -> int | None:
    """The number of the signal that ended a search; None if it came to its end."""
    found = result.status.startswith(INTERRUPTED)
    return signal.Signals[result.status.split()[-1]].value if found else None


def summarised(task: Task, result: Solution) -> dict[str, Any]:
    """The outcome as JSON holds it."""
    point, optimum = task.problem.point, task.optimum
    return {
        "status": FINISHED if signal_of(result) is None else "interrupted",
        "reason": result.status,
        "steps": result.steps,
        "runs": result.runs,
        "f": result.f,
        "q": result.q,
        "v": _entries(point.v),
        "theta": _entries(point.theta),
        "distance_to_optimum": None if optimum is None else optimum.distance(point),
        "optimum": None if optimum is None else {"f": optimum.f, "text": optimum.text},
        "observed": _observed(task, point),
        "certificate": result.certificate.to_dict(),
        "found": [_found(each) for each in result.found],
        "ties": None if result.ties is None else dict(result.ties._asdict()),
        "prices": {kind: values.tolist() for kind, values in result.prices.items()},
        "evaluations": dict(result.evaluations),
        "spent": dict(result.spent),
        "seconds": result.seconds,
        "tuned": dict(result.tuned),
    }


def _observed(task: Task, point: Pair) -> Mapping[str, float]:
    return {} if task.observe is None else task.observe(point)


def _found(each: Found) -> dict[str, Any]:
    return {"f": each.f, "q": each.q, "runs": each.runs, "v": _entries(each.v), "theta": _entries(each.theta)}


def _entries(leaves: Leaves) -> list[float] | None:
    """All entries of a variable in a row; None of a large one."""
    if sum(leaf.numel() for leaf in leaves) > SHOWN:
        return None
    return [x for leaf in leaves for x in leaf.detach().double().reshape(-1).tolist()]
