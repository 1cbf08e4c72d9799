"""Run directories: what a run leaves on disk, and how it is read back.

config.json      what was run; written first
metrics.jsonl    one object per logged step
checkpoints/     states to continue from, with `spec.json`: what they were made with
summary.json     the outcome; written once the run has ended
figures/         the figures of the report
report.html      everything on one page
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from bome._version import __version__
from bome.core.seeds import seed_everything
from bome.errors import NonFiniteError, ProblemError, StorageError
from bome.loop import SAVE_EVERY, Record
from bome.methods.base import Method
from bome.oracles import OracleName
from bome.runs.names import TASKS
from bome.runs.perform import Performance, default_log_every, perform
from bome.runs.plan import Plan
from bome.stopping import Progress
from bome.storage import jsonfile
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, SUMMARY, Folder, free_place

METRICS, REPORT = "metrics.jsonl", "report.html"
CHECKPOINTS, FIGURES, SPEC = "checkpoints", "figures", "spec.json"

RUN = "run"
"""The kind of folder."""

COLLECTION = "collection.json"
"""In a directory of run directories that belong together: which, in what order, and why."""

FINISHED, DIVERGED = "finished", "diverged"
"""The two values of `status` in a summary."""


@dataclass(frozen=True)
class Config:
    """What `config.json` says.

    Attributes:
        task: the name of the task.
        method: the name of the method, or `name:variant`.
        set: the settings given by hand.
        seed: of all that is random in the task.
        oracle: how to differentiate.
        log_every: steps between rows of `metrics.jsonl`.
        save_every: steps between checkpoints.
        settings: all settings of the run, given or not, for people.
        about: the task in one line.
        version: of this library.
        refit: whether θ is trained anew with the last v; None for where that costs little.
        keep_best: whether the v with the lowest F(v) is taken, not the last.
    """

    task: str
    method: str
    set: dict[str, Any]
    seed: int
    oracle: OracleName
    log_every: int
    save_every: int
    settings: dict[str, Any]
    about: str
    version: str
    refit: bool | None = None
    keep_best: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """What decides the result; a run may only be continued with the same."""
        return {"task": self.task, "method": self.method, "set": self.set, "seed": self.seed}

    @property
    def details(self) -> dict[str, Any]:
        """What does not decide the result, but is needed to go on or to show it."""
        return {key: value for key, value in asdict(self).items() if key not in (*self.spec, "version")}

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return command_line("run", self.task, **self._options())

    def command_in(self, folder: Path) -> str:
        """The complete command, which repeats the run in its directory with as many rows and checkpoints."""
        logged = None if self.log_every == default_log_every(self.settings["steps"]) else self.log_every
        saved = None if self.save_every == SAVE_EVERY else self.save_every
        return command_line("run", self.task, **self._options(), log_every=logged, save_every=saved, out=folder)

    def _options(self) -> dict[str, Any]:
        oracle = None if self.oracle == "auto" else self.oracle
        refits = {"refit": self.refit is True, "no_refit": self.refit is False, "keep_best": self.keep_best}
        return {"method": self.method, "set": self.set, "seed": self.seed, "oracle": oracle, **refits}


def configure(
    plan: Plan,
    *,
    oracle: OracleName = "auto",
    log_every: int | None = None,
    save_every: int,
    refit: bool | None = None,
    keep_best: bool = False,
) -> Config:
    """The configuration of a plan, with all defaults written out."""
    spec = plan.spec
    return Config(
        **spec,
        oracle=oracle,
        log_every=log_every if log_every is not None else default_log_every(plan.settings.steps),
        save_every=save_every,
        settings={
            "variant": plan.task.variant,
            "start": plan.task.start,
            **asdict(plan.settings),
            **own_settings(plan.method),
        },
        about=_about(spec["task"]),
        version=__version__,
        refit=refit,
        keep_best=keep_best,
    )


def own_settings(method: Method) -> dict[str, Any]:
    """The fields of a method that are plain values; the inner map is made of settings of the run."""
    return {key: x for key, x in vars(method).items() if isinstance(x, int | float | str)}


def default_folder(config: Config) -> Path:
    """A readable place under `runs/` that is still free."""
    words = [config.task, *config.method.split(":"), *(f"{key}={value}" for key, value in config.set.items())]
    return free_place("-".join([*words, f"seed{config.seed}"]))


def prepare(folder: Path, config: Config) -> None:
    """Make the directory of a new run and write its configuration.

    A finished run of the very same configuration is repeated in place; anything else that is there is left alone.

    Raises:
        ProblemError: the directory holds something else.
    """
    if Folder(folder).state(RUN, config.spec) != "new":
        started = any((folder / CHECKPOINTS).glob("step_*"))
        if started and (read_summary(folder) or {}).get("status") != FINISHED:
            raise ProblemError(
                f"{folder} holds this run, unfinished: continue it with 'bome resume', or choose another --out"
            )
        clear(folder)
    write_config(folder, config)


def write_config(folder: Path, config: Config) -> None:
    """Write `config.json`, and beside the checkpoints what they are made with."""
    Folder(folder).configure(RUN, config.spec, config.command_in(folder), config.details)
    jsonfile.write(folder / CHECKPOINTS / SPEC, config.spec)


def read_config(folder: Path) -> Config:
    """Read `config.json`.

    Raises:
        ProblemError: there is none, or it is not that of a run.
        StorageError: it is damaged.
    """
    stored = Folder(folder).config(RUN)
    values = {"refit": None, "keep_best": False, **stored.spec, **stored.details, "version": stored.version}
    kinds: dict[str, type] = {"task": str, "method": str, "set": dict, "seed": int, "log_every": int, "save_every": int}
    kinds |= {"settings": dict, "about": str, "version": str}
    choices = {"oracle": get_args(OracleName), "refit": (None, False, True), "keep_best": (False, True)}
    right = set(values) == {*kinds, *choices} and all(values[name] in choices[name] for name in choices)
    if not right or not all(isinstance(values[name], kind) for name, kind in kinds.items()):
        raise StorageError(f"{folder / CONFIG} is damaged: it is not the configuration of a run")
    return Config(**values)


@dataclass(frozen=True)
class Collection:
    """Runs that are shown together on one page.

    Attributes:
        title: of the page.
        about: what the runs show, in a few sentences.
        command: the command that made them; empty if there is no single one.
        runs: the names of their directories, in order.
    """

    title: str
    about: str
    command: str
    runs: list[str]


def write_collection(folder: Path, collection: Collection) -> None:
    """Write `collection.json`."""
    jsonfile.write(folder / COLLECTION, asdict(collection))


def read_collection(folder: Path) -> Collection:
    """Read `collection.json`, or, where there is none, take every run directory in the folder."""
    if not (folder / COLLECTION).exists():
        places = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
        names = [place.name for place in places if Folder(place).config().kind in (RUN, "continual")]
        return Collection(folder.resolve().name, "", "", names)
    values = jsonfile.read_object(folder / COLLECTION)
    runs = values.get("runs")
    texts = [values.get(key) for key in ("title", "about", "command")] + (runs if isinstance(runs, list) else [None])
    # A name must not lead out of the folder.
    if not all(isinstance(text, str) for text in texts) or any(Path(name).name != name for name in runs or ()):
        raise StorageError(f"{folder / COLLECTION} is damaged: it is not a list of runs")
    return Collection(values["title"], values["about"], values["command"], values["runs"])


def read_spec(folder: Path) -> dict[str, Any] | None:
    """What the checkpoints of the run were made with; None if there is no such record."""
    path = folder / CHECKPOINTS / SPEC
    return jsonfile.read_object(path) if path.exists() else None


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Read `summary.json`; None if the run has not ended."""
    path = folder / SUMMARY
    if not path.exists():
        return None
    summary = jsonfile.read_object(path)
    if not isinstance(summary.get("status"), str):
        raise StorageError(f"{path} is damaged: it is not the summary of a run")
    return summary


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`, without touching the file; a last line cut short by a kill is left out."""
    return jsonfile.read_rows(folder / METRICS)


def perform_into(
    folder: Path,
    plan: Plan,
    config: Config,
    *,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> dict[str, Any]:
    """Run a plan in its directory, or continue it there, and write the summary.

    The random numbers of Python, NumPy and torch start from the seed, so that equal configurations give equal results.

    Returns:
        The summary.

    Raises:
        NonFiniteError: the run diverged; the summary says so too.
        RunInterruptedError: SIGINT or SIGTERM; the state is saved and there is no summary yet.
    """
    (folder / SUMMARY).unlink(missing_ok=True)
    if not resume:
        seed_everything(config.seed)
    record = Record(folder, config.save_every, resume)
    try:
        result = perform(
            plan,
            log_every=config.log_every,
            record=record,
            progress=progress,
            oracle=config.oracle,
            refit=config.refit,
            keep_best=config.keep_best,
        )
    except NonFiniteError as error:
        jsonfile.write(folder / SUMMARY, _summary(plan, None, DIVERGED, str(error), error.step))
        raise
    summary = _summary(plan, result, FINISHED, result.status, result.steps)
    if plan.task.observe is not None:
        summary["observed"] = result.observed
        summary["resolved"] = plan.task.observe_afresh(plan.task.problem.point)
    jsonfile.write(folder / SUMMARY, summary)
    return summary


def _summary(plan: Plan, result: Performance | None, status: str, reason: str, steps: int) -> dict[str, Any]:
    last = {} if result is None or not result.history.rows else result.history.rows[-1]
    optimum = plan.task.optimum
    return {
        "status": status,
        "reason": reason,
        "steps": steps,
        "f": None if result is None else result.f,
        "q": None if result is None else result.q,
        "distance_to_optimum": last.get("distance_to_optimum"),
        "optimum": None if optimum is None else {"f": optimum.f, "text": optimum.text},
        "certificate": None if result is None else result.certificate.to_dict(),
        "evaluations": {"f": 0, "g": 0, "hvp": 0, **({} if result is None else result.evaluations)},
        "seconds": None if result is None else result.seconds,
        "tuned": {} if result is None else result.tuned,
        "refit": None if result is None or result.refit is None else result.refit.to_dict(),
        "worth": "" if result is None else result.worth,
    }


def clear(folder: Path) -> None:
    """Remove what a run leaves in its directory, and only that."""
    try:
        for name in (SUMMARY, REPORT, METRICS):
            (folder / name).unlink(missing_ok=True)
        for name in (CHECKPOINTS, FIGURES):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
        (folder / CONFIG).unlink(missing_ok=True)  # last: without it the rest would be nobody's
    except OSError as error:
        raise StorageError(f"cannot clear {folder}: {error.strerror}") from error


def _about(task: str) -> str:
    """The first line of the docstring of the task's module."""
    text = sys.modules[TASKS[task].__module__].__doc__ or ""
    return text.strip().split("\n")[0]
