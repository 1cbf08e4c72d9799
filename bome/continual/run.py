"""One run of continual learning: a strategy on a stream with a seed, in a folder of its own, resumable at any batch.

The folder is a run directory (see `bome.runs.directory`): `config.json` says what is run, `metrics.jsonl` has a row for
each judgement, `checkpoints/` what is needed to continue, and `summary.json` the outcome with the matrix of accuracies.
A run whose process was killed continues from its newest checkpoint and ends bit for bit as if nothing had happened.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch

from bome._typing import Report
from bome._version import __version__
from bome.continual.contextual import Contextual, make_method
from bome.continual.metrics import metrics
from bome.continual.replay import REPLAY
from bome.continual.settings import CTN, Settings, about, parse_settings, split, usual_settings
from bome.continual.strategy import Strategy
from bome.continual.streams import STREAMS, Part, Stream
from bome.core.signals import signals
from bome.errors import NonFiniteError, ProblemError, RunInterruptedError
from bome.runs.directory import (
    CHECKPOINTS,
    CONFIG,
    DIVERGED,
    FINISHED,
    METRICS,
    SUMMARY,
    Config,
    own_settings,
    read_config,
    read_summary,
    write_config,
)
from bome.runs.plan import AUTO
from bome.storage import checkpoint
from bome.storage.atomic import write_atomic
from bome.storage.history import History
from bome.storage.jsonfile import plain
from bome.storage.lock import LOCK, alone
from bome.tuner import Tuner

SAVE_SECONDS = 60.0
"""Time between checkpoints within a task; one is also written after every task."""


@dataclass(frozen=True)
class Spec:
    """What decides the result of a run.

    Attributes:
        task: the name of the stream.
        strategy: its name, with a variant after a colon.
        seed: of the stream, the networks and all draws.
        values: settings that differ from the usual ones of the strategy on the stream.
        part: the tasks to learn, or those for tuning.
    """

    task: str
    strategy: str
    seed: int
    values: Mapping[str, Any] = field(default_factory=dict)
    part: Part = "learning"

    def __post_init__(self) -> None:
        if self.part not in get_args(Part):
            raise ProblemError(f"part must be one of {', '.join(get_args(Part))}, got {self.part!r}")

    @classmethod
    def of(cls, config: Config) -> "Spec":
        """Of the run that a configuration is of."""
        values = dict(config.set)
        part = values.pop("part", "learning")
        return cls(config.task, config.method, config.seed, values, part)

    def settled(self) -> tuple[Settings, dict[str, Any]]:
        """The settings of the run, and those of the bilevel method's own."""
        if self.task not in STREAMS:
            raise ProblemError(f"{self.task!r} is no stream of tasks; there are {', '.join(STREAMS)}")
        settings, own = split({**usual_settings(self.task, self.strategy), **self._given()})
        if self.strategy.startswith(CTN):
            _ = settings.semantic_slots  # refuses what would leave a memory empty, before anything is written
        return settings, own

    def config(self) -> Config:
        """As `config.json` has it."""
        settings, own = self.settled()
        return Config(
            task=self.task,
            method=self.strategy,
            set={**self._given(), **({"part": self.part} if self.part != "learning" else {})},
            seed=self.seed,
            oracle="auto",
            log_every=1,
            save_every=1,
            settings=self._all_settings(settings, own),
            about=(STREAMS[self.task].__doc__ or "").split("\n")[0],
            version=__version__,
        )

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


def ended(spec: Spec, folder: Path) -> dict[str, Any] | None:
    """The summary of a run that has ended in a folder; None if it has not, or if another run is there."""
    if not (folder / CONFIG).exists() or not is_same(read_config(folder), spec.config()):
        return None
    return read_summary(folder)


def is_same(found: Config, wanted: Config) -> bool:
    """Whether two configurations are of the same run with the same settings."""
    return (found.spec, found.settings) == (wanted.spec, wanted.settings)


def carry_out_part(spec: Spec, folder: Path, progress: Report | None = None) -> dict[str, Any]:
    """Run, or continue, one run in its folder; if it has ended there nothing is done.

    Returns:
        The summary.

    If it diverges the summary says so; if another process is at it this one waits.

    Raises:
        ProblemError: the folder holds another run.
        RunInterruptedError: SIGINT or SIGTERM; the state is saved.
    """
    config = spec.config()
    if (folder / CONFIG).exists():
        if not is_same(read_config(folder), config):
            raise ProblemError(
                f"{folder} holds another run, or one with other settings: choose another --out, or remove it"
            )
    elif folder.exists() and (not folder.is_dir() or any(path.name != LOCK for path in folder.iterdir())):
        raise ProblemError(f"{folder} is not empty and not a run directory: choose another --out")
    if (summary := read_summary(folder)) is not None:
        return summary
    run = _Run(spec, folder, progress)  # before anything is written: its data may be missing
    with alone(folder):
        if (summary := read_summary(folder)) is not None:
            return summary
        write_config(folder, config)
        try:
            summary = run.carry_out()
        except NonFiniteError as error:
            summary = {**run.summary(), "status": DIVERGED, "reason": str(error)}
        written: dict[str, Any] = plain(summary)  # null for NaN, as whoever reads the file finds it
        write_atomic(folder / SUMMARY, json.dumps(written, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return written


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
        self._stream: Stream = STREAMS[spec.task](spec.seed, spec.part)
        self._strategy: Strategy = make_strategy(spec.strategy, self._stream, settings, own)
        self._stages = self._strategy.stages()
        self._all = sum(map(len, self._stages))
        self._stage, self._batch, self._done = 0, 0, 0
        self._matrix: list[list[float]] = []
        self._seconds: list[float] = []  # processor time of learning, by stage
        self._last_saved = time.monotonic()

    def carry_out(self) -> dict[str, Any]:
        """Learn all tasks, judge after each."""
        with signals() as asked:
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
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """The outcome so far."""
        return {
            "status": FINISHED,
            "reason": f"all {self._stream.tasks} tasks learned",
            "steps": self._done,
            "f": None,
            "q": None,
            "distance_to_optimum": None,
            "optimum": None,
            "certificate": None,
            "evaluations": self._strategy.evaluations,
            "seconds": sum(self._seconds),
            "seconds_by_task": self._seconds,
            "tuned": self._strategy.tuned,
            "observed": metrics(self._matrix) if self._matrix else {},
            "matrix": self._matrix,
        }

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
        known = (
            self._stage + 1 if len(self._stages) == self._stream.tasks else self._stream.tasks
        )  # offline: all at once
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
        found = checkpoint.load_latest(self._folder / CHECKPOINTS)
        if found is None:
            torch.manual_seed(self._stream.seed)
            return
        state = found.state
        self._stage, self._batch, self._done = state["stage"], state["batch"], state["done"]
        self._matrix, self._seconds = state["matrix"], state["seconds"]
        self._strategy.load_state_dict(state["strategy"])
        torch.set_rng_state(state["random"])

    def _heed(self, asked: list[int]) -> None:
        if asked and self._stage < len(self._stages):
            raise RunInterruptedError(asked[0], self._done)
