"""The folder of a command that can be continued: what it is the folder of, and whether the work has ended.

config.json   which command made it, with what; written first
summary.json  the outcome; written last
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bome._version import __version__
from bome.errors import ProblemError, StorageError
from bome.storage import jsonfile
from bome.storage.atomic import is_stray
from bome.storage.command import command_line
from bome.storage.lock import LOCK

CONFIG, SUMMARY = "config.json", "summary.json"

State = Literal["new", "same", "finished"]

NOUNS: dict[str, str] = {
    "run": "run",
    "solve": "solution",
    "sweep": "sweep",
    "clean": "cleaning",
    "mix": "mixture",
    "reproduce": "study",
    "bench": "benchmark",
    "continual": "continual run",
    "demo": "demonstration",
}
"""What a folder of each kind holds; verbs of other packages have kinds of their own."""


@dataclass(frozen=True)
class Config:
    """What `config.json` says.

    Attributes:
        kind: which verb made the folder.
        spec: what decides the result; work may only be continued with the same.
        command: the complete command, as it can be typed in a shell.
        place: the working directory that the command was given in.
        version: of this library.
        details: what does not decide the result, but is needed to go on or to show it.
    """

    kind: str
    spec: dict[str, Any]
    command: str
    place: str
    version: str
    details: dict[str, Any] = field(default_factory=dict)


class Folder:
    """A folder of one command.

    Args:
        path: where it is; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(
        self, kind: str, spec: Mapping[str, Any], command: str, details: Mapping[str, Any] | None = None
    ) -> State:
        """Make the folder that of a command, unless it is that of another one.

        Args:
            kind: which verb asks.
            spec: what decides the result, as JSON has it.
            command: complete, with `--out`, as it can be typed in a shell.
            details: what does not decide it.

        Returns:
            "new" if nothing was there, "same" if there is unfinished work of the same specification, which stays,
            "finished" if its summary is there; then nothing is written.

        Raises:
            ProblemError: the folder holds something else.
            StorageError: its files are damaged, or it cannot be written.
        """
        state = self.state(kind, spec)
        if state != "finished":
            self.configure(kind, spec, command, details)
        return state

    def configure(
        self, kind: str, spec: Mapping[str, Any], command: str, details: Mapping[str, Any] | None = None
    ) -> None:
        """Write `config.json`, whatever the folder is now; the arguments are those of `claim`."""
        config = Config(kind, dict(spec), command, os.getcwd(), __version__, dict(details or {}))
        jsonfile.write(self.path / CONFIG, asdict(config))

    def is_free(self) -> bool:
        """Whether nothing is there but strays of dead processes and locks."""
        if not self.path.exists():
            return True
        if not self.path.is_dir():
            return False
        try:
            return all(name == LOCK or is_stray(name) for name in os.listdir(self.path))
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from error

    def holds(self, kind: str, spec: Mapping[str, Any]) -> bool:
        """Whether this is the folder of such a command."""
        if not (self.path / CONFIG).exists():
            return False
        config = self.config()
        return config.kind == kind and _text(config.spec) == _text(spec)

    def config(self, kind: str | None = None) -> Config:
        """What `config.json` says.

        Args:
            kind: the kind that is wanted, if it matters.

        Raises:
            ProblemError: there is none, or it is of another kind.
            StorageError: it is damaged.
        """
        path = self.path / CONFIG
        if not path.exists():
            raise ProblemError(f"{self.path} is not a folder of bome: it has no {CONFIG}")
        values = jsonfile.read_object(path)
        kinds = {"kind": str, "spec": dict, "command": str, "place": str, "version": str, "details": dict}
        if set(values) != set(kinds) or not all(isinstance(values[name], kind) for name, kind in kinds.items()):
            raise StorageError(f"{path} is damaged: it does not say which command of bome made this folder")
        config = Config(**values)
        if kind is not None and config.kind != kind:
            raise ProblemError(f"{self.path} holds a {_noun(config.kind)}, not a {_noun(kind)}")
        return config

    def summary(self) -> dict[str, Any] | None:
        """What `summary.json` says; None if the work has not ended.

        Raises:
            StorageError: it is damaged.
        """
        path = self.path / SUMMARY
        return jsonfile.read_object(path) if path.exists() else None

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`, after everything else."""
        jsonfile.write(self.path / SUMMARY, dict(summary))

    @property
    def again(self) -> str:
        """The command that goes on with the work."""
        return command_line("resume", self.path)

    def unfinished(self) -> ProblemError:
        """What is raised where the work has to have ended, and has not."""
        noun = _noun(self.config().kind)
        return ProblemError(f"{self.path} holds a {noun} that has not ended: go on with '{self.again}'")

    def state(self, kind: str, spec: Mapping[str, Any]) -> State:
        """What `claim` returns or refuses; nothing is written."""
        other = "choose another --out"
        if self.path.exists() and not self.path.is_dir():
            raise ProblemError(f"{self.path} is a file: {other}")
        if self.is_free():
            return "new"
        if not (self.path / CONFIG).exists():
            raise ProblemError(f"{self.path} is not empty and holds nothing of bome's: {other}")
        config, noun = self.config(), _noun(kind)
        if config.kind != kind:
            raise ProblemError(f"{self.path} holds a {_noun(config.kind)}, not a {noun}: {other}")
        if _text(config.spec) != _text(spec):
            raise ProblemError(f"{self.path} holds another {noun}, with other inputs or settings: {other}")
        return "same" if self.summary() is None else "finished"


def free_place(name: str, kind: str | None = None, spec: Mapping[str, Any] | None = None) -> Path:
    """A place under `runs/` of about this name that is free, or holds the command of this kind and specification."""
    base = Path("runs") / "".join(c if c.isalnum() or c in "-_.=+" else "_" for c in name)[:200]
    place, number = base, 2
    while not (Folder(place).is_free() or _holds(place, kind, spec)):
        place = base.with_name(f"{base.name}-{number}")
        number += 1
    return place


def _holds(place: Path, kind: str | None, spec: Mapping[str, Any] | None) -> bool:
    """Whether a place holds what is wanted; a damaged one does not."""
    try:
        return kind is not None and spec is not None and Folder(place).holds(kind, spec)
    except StorageError:
        return False


def _noun(kind: str) -> str:
    """What a folder holds, in a sentence after "a"."""
    return NOUNS.get(kind, f"result of 'bome {kind}'")


def _text(spec: Mapping[str, Any]) -> str:
    """A specification as it is compared: the order of keys does not count."""
    return json.dumps(jsonfile.plain(dict(spec)), sort_keys=True)
