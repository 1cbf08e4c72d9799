"""A run as its directory tells it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bome.continual.run import Spec, spec_in, summary_in
from bome.continual.streams import about_stream
from bome.errors import ProblemError
from bome.runs import directory
from bome.storage.folder import CONFIG, Folder
from bome.storage.jsonfile import read_rows


@dataclass(frozen=True)
class Run:
    """What the folder of a run holds.

    Attributes:
        name: of the folder.
        task: the name of the task, or of the stream of tasks.
        about: the task in one line.
        method: the name of the method, or of the strategy.
        settings: all of them, with the seed.
        given: those given by hand.
        command: what repeats the run.
        rows: `metrics.jsonl`.
        summary: `summary.json`; empty while the run has not ended.
    """

    name: str
    task: str
    about: str
    method: str
    settings: dict[str, Any]
    given: Collection[str]
    command: str
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def variant(self) -> str:
        """The variant of the task."""
        return str(self.settings.get("variant", ""))

    @property
    def start(self) -> str:
        """The starting point of the task."""
        return str(self.settings.get("start", ""))

    def series(self, name: str) -> tuple[list[float], list[float]]:
        """The steps at which a quantity was logged, and its values."""
        pairs = [(row["step"], row[name]) for row in self.rows if _is_number(row, "step") and _is_number(row, name)]
        return [float(step) for step, _ in pairs], [float(value) for _, value in pairs]

    def path(self, across: str, up: str) -> tuple[list[float], list[float]]:
        """The values of two quantities logged together."""
        both = [(row[across], row[up]) for row in self.rows if _is_number(row, across) and _is_number(row, up)]
        return [float(x) for x, _ in both], [float(y) for _, y in both]


@dataclass(frozen=True)
class Group:
    """Runs of one problem, shown in the same figures."""

    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """One that stands for all where they do not differ."""
        return self.runs[0]

    def labels(self) -> list[str]:
        """What tells the runs apart: their starting points if that is enough, else their directories."""
        starts = [run.start for run in self.runs]
        if len(self.runs) > 1 and len(set(starts)) == len(starts):
            return [f"from start {start}" for start in starts]
        return [run.name for run in self.runs]


def load_run(folder: Path) -> Run:
    """Read the folder of a run on a task, or on a stream of tasks."""
    spec = spec_in(folder)
    return _of_task(folder) if spec is None else _of_stream(folder, spec)


def _of_task(folder: Path) -> Run:
    config = directory.read_config(folder)
    return Run(
        name=folder.resolve().name,
        task=config.task,
        about=config.about,
        method=config.method,
        settings={**config.settings, **config.set, "seed": config.seed, "oracle": config.oracle},
        given=config.set,
        command=config.command,
        rows=read_rows(folder / directory.METRICS),
        summary=directory.read_summary(folder) or {},
    )


def _of_stream(folder: Path, spec: Spec) -> Run:
    summary = summary_in(Folder(folder))
    return Run(
        name=folder.resolve().name,
        task=spec.stream,
        about=about_stream(spec.stream),
        method=spec.strategy,
        settings={**Folder(folder).config().spec["settings"], "part": spec.part, "seed": spec.seed},
        given=spec.values,
        command=Folder(folder).config().command,
        rows=read_rows(folder / directory.METRICS),
        summary={} if summary is None else asdict(summary),
    )


def load(folder: Path) -> tuple[directory.Collection, list[Run]]:
    """Read a run directory, or a directory of run directories."""
    if not folder.is_dir():
        raise ProblemError(f"{folder} is not a directory")
    if (folder / CONFIG).exists() and not (folder / directory.COLLECTION).exists():
        run = load_run(folder)
        return directory.Collection(f"{run.task} by {run.method}", "", run.command, [run.name]), [run]
    collection = directory.read_collection(folder)
    if not collection.runs:
        raise ProblemError(f"{folder} is not a run directory: it has no {CONFIG}")
    return collection, [load_run(folder / name) for name in collection.runs]


def groups(runs: Sequence[Run]) -> Iterator[Group]:
    """Neighbouring runs of the same problem."""
    for _, same in groupby(runs, key=lambda run: (run.task, run.variant)):
        yield Group(tuple(same))


def _is_number(row: dict[str, Any], name: str) -> bool:
    return isinstance(row.get(name), (int, float))
