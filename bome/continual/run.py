"""One run of continual learning: a strategy on a stream with a seed, in a folder of its own, resumable at any batch.

In its folder (see `bome.storage.folder`) `metrics.jsonl` has a row for each judgement, `checkpoints/` what is needed to
continue, and `summary.json` the outcome with the matrix of accuracies. A run whose process was killed continues from
its newest checkpoint and ends bit for bit as if nothing had happened.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self, get_args

import torch

from bome._typing import Report
from bome.continual.contextual import Contextual, make_method
from bome.continual.metrics import metrics
from bome.continual.replay import REPLAY
from bome.continual.settings import CTN, Settings, about, parse_settings, split, usual_settings
from bome.continual.strategy import Strategy
from bome.continual.streams import STREAMS, Part, Stream
from bome.core.seeds import seed_everything
from bome.core.signals import signals
from bome.errors import NonFiniteError, ProblemError, RunInterruptedError, StorageError
from bome.runs.directory import CHECKPOINTS, DIVERGED, FINISHED, METRICS, own_settings
from bome.runs.plan import AUTO
from bome.storage import checkpoint, jsonfile
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, SUMMARY, Folder
from bome.storage.history import History
from bome.storage.lock import alone
from bome.tuner import Tuner

SAVE_SECONDS = 60.0
"""Time between checkpoints within a task; one is also written after every task."""


@dataclass(frozen=True)
class Spec:
    """What decides the result of a run.

    Attributes:
        stream: its name.
        strategy: its name, with a variant after a colon.
        seed: of the stream, the networks and all draws.
        values: settings that differ from the usual ones of the strategy on the stream.
        part: the tasks to learn, or those for tuning.
    """

    stream: str
    strategy: str
    seed: int
    values: Mapping[str, Any] = field(default_factory=dict)
    part: Part = "learning"

    def __post_init__(self) -> None:
        if self.part not in get_args(Part):
            raise ProblemError(f"part must be one of {', '.join(get_args(Part))}, got {self.part!r}")

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any], where: str) -> Self:
        """The specification that a file has.

        Raises:
            StorageError: it is none; `where` is the file.
        """
        kinds = {"stream": str, "strategy": str, "seed": int, "part": str, "set": dict, "settings": dict}
        if set(spec) != set(kinds) or not all(isinstance(spec[name], kind) for name, kind in kinds.items()):
            raise StorageError(f"{where} is damaged: it does not say which run on a stream of tasks this is")
        return cls(spec["stream"], spec["strategy"], spec["seed"], spec["set"], spec["part"])

    @classmethod
    def from_settings(cls, stream: str, strategy: str, values: Mapping[str, Any], seed: int) -> Self:
        """The run that `--set` describes, where `part` is one of the settings."""
        rest = {key: value for key, value in values.items() if key != "part"}
        return cls(stream, strategy, seed, rest, values.get("part", "learning"))

    def to_dict(self) -> dict[str, Any]:
        """As `config.json` has it, with all settings written out; wrong names and values are refused."""
        settings, own = self.settled()
        return {
            "stream": self.stream,
            "strategy": self.strategy,
            "seed": self.seed,
            "part": self.part,
            "set": self._given(),
            "settings": self._all_settings(settings, own),
        }

    def settled(self) -> tuple[Settings, dict[str, Any]]:
        """The settings of the run, and those of the bilevel method's own."""
        if self.stream not in STREAMS:
            raise ProblemError(f"{self.stream!r} is no stream of tasks; there are {', '.join(STREAMS)}")
        settings, own = split({**usual_settings(self.stream, self.strategy), **self._given()})
        if self.strategy.startswith(CTN):
            _ = settings.semantic_slots  # refuses what would leave a memory empty, before anything is written
        return settings, own

    @property
    def title(self) -> str:
        """A name for the folder of the run."""
        words = [self.stream, *self.strategy.split(":"), *(f"{key}={value}" for key, value in self._set().items())]
        return "-".join([*words, f"seed{self.seed}"])

    def command(self, out: Path | None = None) -> str:
        """The command that repeats the run, in a folder if one is given."""
        return command_line("run", self.stream, method=self.strategy, set=self._set(), seed=self.seed, out=out)

    def _set(self) -> dict[str, Any]:
        """What `--set` gives."""
        return {**self._given(), **({"part": self.part} if self.part != "learning" else {})}

    def _given(self) -> dict[str, Any]:
        """The settings that differ from the usual ones, checked, with the types that they should have."""
        return parse_settings(self.strategy, self.values)

    def _all_settings(self, settings: Settings, own: Mapping[str, Any]) -> dict[str, Any]:
        """Those that the strategy has, with all defaults written out."""
        values = {key: getattr(settings, key) for key in about(self.strategy).settings}
        if not self.strategy.startswith(CTN):
            return values
        method = own_settings(make_method(self.strategy, 1, settings, own))
        method.pop("steps", None)  # those of the stream, which is not loaded for this
        return {**method, **values}


Number = float | None
"""None where a file has no number, since there was none or it was not finite."""


@dataclass(frozen=True)
class Summary:
    """How a run ended, as `summary.json` has it.

    Attributes:
        status: "finished" or "diverged".
        reason: in words.
        steps: batches learned.
        evaluations: how often the losses of a bilevel problem were evaluated, by kind.
        seconds: processor time of learning.
        seconds_by_task: the same for each task.
        tuned: what a tuner picked.
        observed: ACC, FT, NBT and FM (see `bome.continual.metrics`).
        matrix: the accuracies after each task.
    """

    status: str
    reason: str
    steps: int
    evaluations: dict[str, int]
    seconds: float
    seconds_by_task: list[float]
    tuned: dict[str, Number]
    observed: dict[str, Number]
    matrix: list[list[Number]]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> Self:
        """The summary that a file has.

        Raises:
            StorageError: it is none; `where` is the file.
        """
        if set(values) != {each.name for each in fields(cls)}:
            raise StorageError(f"{where} is damaged: it is not the summary of a run on a stream of tasks")
        summary = cls(**values)
        if not summary._is_whole():
            raise StorageError(f"{where} is damaged: it is not the summary of a run on a stream of tasks")
        return summary

    def _is_whole(self) -> bool:
        """Whether everything that a page is made of has its right form."""
        dicts, lists = (self.evaluations, self.tuned, self.observed), (self.seconds_by_task, self.matrix)
        if not all(isinstance(x, dict) for x in dicts) or not all(isinstance(x, list) for x in lists):
            return False
        if not all(isinstance(row, list) for row in self.matrix) or len({len(row) for row in self.matrix}) > 1:
            return False
        numbers = (*(x for each in dicts for x in each.values()), *(x for row in self.matrix for x in row))
        if not all(x is None or isinstance(x, (int, float)) for x in numbers):
            return False
        if not all(isinstance(x, (int, float)) for x in (self.steps, self.seconds, *self.seconds_by_task)):
            return False
        if not isinstance(self.reason, str):
            return False
        return self.status == DIVERGED or (self.status == FINISHED and bool(self.matrix) and bool(self.matrix[0]))


def ended(spec: Spec, path: Path) -> Summary | None:
    """The summary of a run that has ended in a folder; None if it has not, or if another run is there."""
    folder = Folder(path)
    return summary_in(folder) if folder.holds("continual", spec.to_dict()) else None


def spec_in(path: Path) -> Spec | None:
    """The run on a stream whose folder this is; None if it is that of something else."""
    config = path / CONFIG
    if not config.exists() or jsonfile.read_object(config).get("kind") != "continual":
        return None
    return Spec.from_dict(Folder(path).config().spec, str(config))


def summary_in(folder: Folder) -> Summary | None:
    """The summary in the folder of a run; None if it has not ended.

    Raises:
        StorageError: it is damaged.
    """
    values = folder.summary()
    return None if values is None else Summary.from_dict(values, str(folder.path / SUMMARY))


def learn(spec: Spec, path: Path, progress: Report | None = None) -> Summary:
    """Run, or continue, one run in its folder; if it has ended there nothing is done.

    If it diverges the summary says so; if another process works on it this one waits.

    Args:
        spec: the run.
        path: its folder.
        progress: hears of each batch.

    Raises:
        ProblemError: the folder holds something else.
        RunInterruptedError: SIGINT or SIGTERM; the state is saved.
    """
    folder, wanted = Folder(path), spec.to_dict()
    if folder.state("continual", wanted) != "finished":
        run = _Run(spec, path, progress)  # before anything is written: its data may be missing
        with alone(path):
            if folder.claim("continual", wanted, spec.command(path)) != "finished":
                folder.finish(asdict(run.to_the_end()))
    summary = summary_in(folder)
    assert summary is not None  # noqa: S101 - it has ended
    return summary


def make_strategy(name: str, stream: Stream, settings: Settings, own: Mapping[str, Any] | None = None) -> Strategy:
    """A strategy by its name.

    Args:
        name: such as "er", "ctn+bome" or "ctn+bome:fresh".
        stream: the tasks.
        settings: the settings.
        own: settings of the bilevel method's own, such as `c_ln` of bvfsm.
    """
    if name in REPLAY:
        return REPLAY[name](stream, settings)
    tuner = Tuner() if name.endswith(f":{AUTO}") else None
    updates = stream.tasks * -(-stream.samples // settings.batch) * settings.updates
    return Contextual(stream, settings, make_method(name, updates, settings, own or {}), tuner)


class _Run:
    """The only loop over tasks."""

    def __init__(self, spec: Spec, folder: Path, progress: Report | None) -> None:
        settings, own = spec.settled()
        self._folder, self._progress = folder, progress
        self._stream: Stream = STREAMS[spec.stream](spec.seed, spec.part)
        self._strategy: Strategy = make_strategy(spec.strategy, self._stream, settings, own)
        self._stages = self._strategy.stages()
        self._all = sum(map(len, self._stages))
        self._stage, self._batch, self._done = 0, 0, 0
        self._matrix: list[list[float]] = []
        self._seconds: list[float] = []  # processor time of learning, by stage
        self._last_saved = time.monotonic()

    def to_the_end(self) -> Summary:
        """Learn all tasks, judge after each."""
        try:
            with signals() as asked:
                self._learn_all(asked)
        except NonFiniteError as error:
            return self._summary(DIVERGED, str(error))
        return self._summary(FINISHED, f"all {self._stream.tasks} tasks learned")

    def _learn_all(self, asked: list[int]) -> None:
        """What is left of the stages."""
        self._continue()
        with History.open(self._folder / METRICS) as history:
            history.truncate(self._stage - 1)
            while self._stage < len(self._stages):
                self._learn(asked)
                self._judge()
                history.append(self._row())
                history.flush()
                self._stage, self._batch = self._stage + 1, 0
                self._save()
                self._heed(asked)

    def _summary(self, status: str, reason: str) -> Summary:
        return Summary(
            status=status,
            reason=reason,
            steps=self._done,
            evaluations=self._strategy.evaluations,
            seconds=sum(self._seconds),
            seconds_by_task=[*self._seconds],
            tuned={**self._strategy.tuned},
            observed={**metrics(self._matrix)} if self._matrix else {},
            matrix=[[*row] for row in self._matrix],
        )

    def _learn(self, asked: list[int]) -> None:
        """The batches of the current stage that are left."""
        stage = self._stages[self._stage]
        if self._batch == 0:
            self._seconds.append(0.0)
        while self._batch < len(stage):
            start = time.process_time()
            self._strategy.observe(stage[self._batch])
            self._seconds[-1] += time.process_time() - start
            self._batch, self._done = self._batch + 1, self._done + 1
            if self._progress is not None:
                self._progress(f"task {self._stage + 1}", self._done, self._all)
            if asked or time.monotonic() - self._last_saved > SAVE_SECONDS:
                self._save()
                self._heed(asked)

    def _judge(self) -> None:
        """The accuracy on every task learned so far; at the end of a stage."""
        start = time.process_time()
        if not all(bool(torch.isfinite(x).all()) for x in self._strategy.base.parameters()):
            raise NonFiniteError(self._done, "the network", "try a smaller theta_lr")
        self._strategy.finish(self._stage)
        self._seconds[-1] += time.process_time() - start
        one_by_one = len(self._stages) == self._stream.tasks  # offline learns all at once
        known = self._stage + 1 if one_by_one else self._stream.tasks
        accuracies = [self._accuracy(task) for task in range(known)]
        self._matrix.append(accuracies + [float("nan")] * (self._stream.tasks - known))

    def _accuracy(self, task: int) -> float:
        samples = self._stream.held_out(task)
        hits = self._strategy.predict(samples).argmax(dim=1) == samples.y
        return 100 * int(hits.sum()) / len(hits)

    def _row(self) -> dict[str, Any]:
        accuracies = [a for a in self._matrix[-1] if a == a]
        return {
            "step": self._stage,
            "seconds": sum(self._seconds),
            "test_accuracy": sum(accuracies) / len(accuracies),
            "newest_task": accuracies[-1],
        }

    def _save(self) -> None:
        state = {
            "stage": self._stage,
            "batch": self._batch,
            "done": self._done,
            "matrix": self._matrix,
            "seconds": self._seconds,
            "strategy": self._strategy.state_dict(),
            "random": torch.get_rng_state(),
        }
        checkpoint.save(self._folder / CHECKPOINTS, self._done, state, keep=2)
        self._last_saved = time.monotonic()

    def _continue(self) -> None:
        """From the newest checkpoint, if there is one."""
        saved = checkpoint.load_latest(self._folder / CHECKPOINTS)
        if saved is None:
            seed_everything(self._stream.seed)
            return
        state = saved.state
        self._stage, self._batch, self._done = state["stage"], state["batch"], state["done"]
        self._matrix, self._seconds = state["matrix"], state["seconds"]
        self._strategy.load_state_dict(state["strategy"])
        torch.set_rng_state(state["random"])

    def _heed(self, asked: list[int]) -> None:
        if asked and self._stage < len(self._stages):
            raise RunInterruptedError(asked[0], self._done)
