"""What the verbs print: tables on stdout, progress on stderr, and how to go on after an interruption."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from bome._typing import Report
from bome.errors import BilevelError, RunInterruptedError
from bome.stopping import Progress
from bome.storage.folder import CONFIG, Folder
from bome.storage.jsonfile import plain

REFRESH_SECONDS = 0.2
"""Looking at a tensor waits for the device, so the bar looks rarely."""


class StoppedError(BilevelError):
    """The command was asked to stop; `exit_code` is 128 plus the number of the signal."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted")
        self.exit_code = code


@contextmanager
def resumable(folder: Path, command: str | None = None) -> Iterator[None]:
    """If what is done inside is interrupted after it has begun in a folder, say which command goes on with it.

    Args:
        folder: where it is done.
        command: by default that which resumes the folder.
    """
    hint = f"continue with: {command or Folder(folder).again}"
    try:
        yield
    except (RunInterruptedError, StoppedError) as error:
        error.__notes__ = [hint]  # in place of one for a folder inside of this one
        raise
    except (KeyboardInterrupt, SystemExit) as end:
        code = 128 + signal.SIGINT if isinstance(end, KeyboardInterrupt) else end.code
        if not (folder / CONFIG).exists() or code not in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            raise
        stopped = StoppedError(int(code))
        stopped.add_note(hint)
        raise stopped from None


def printable(text: str) -> str:
    """The text on one line, with control characters (colours, cursor movements, line ends) spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def number(value: float | None) -> str:
    """A number for people."""
    return "–" if value is None else f"{value:.4g}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal; piped output has 80 columns."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*map(printable, row))
    if title:
        _console().print(title, style="bold")
    _console().print(grid)


def line(text: str) -> None:
    """Print a line on stdout as it is, however long."""
    typer.echo(printable(text))


def print_json(value: Any) -> None:
    """Print a value as a line of JSON on stdout."""
    line(json.dumps(plain(value), ensure_ascii=False))


def note(text: str) -> None:
    """Print a line on stderr."""
    typer.echo(printable(text), err=True)


class Bar:
    """A progress bar over the steps of one or several runs; shows f, q̂ and λ."""

    def __init__(self, bar: RichProgress, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._done = 0  # steps of the runs before the current one

    def follow(self, label: str, steps: int) -> Callable[[Progress], None]:
        """A function to be called after every step of a run."""
        before, self._done = self._done, self._done + steps
        next_look = 0.0

        def look(progress: Progress) -> None:
            nonlocal next_look
            now = time.monotonic()
            if now < next_look and progress.step < steps:
                return
            next_look = now + REFRESH_SECONDS
            text = f"{label} {_measured(progress)}"
            self._bar.update(self._task, completed=before + progress.step, description=printable(text), refresh=True)

        return look


class NoBar:
    """In place of a bar where nobody watches."""

    def follow(self, label: str, steps: int) -> None:
        """Nothing to call."""


@contextmanager
def progress_bar(total: int, *, quiet: bool) -> Iterator[Bar | NoBar]:
    """A bar on stderr, if that is a terminal."""
    console = Console(stderr=True, markup=False, highlight=False)
    if quiet or not console.is_terminal:
        yield NoBar()
        return
    columns = (BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    # Our own calls refresh the bar: a thread that does would wake up during steps.
    with RichProgress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        yield Bar(bar, bar.add_task("", total=total))


@contextmanager
def stage_bar(name: str, *, quiet: bool) -> Iterator[Report]:
    """A bar over the parts of some work on stderr, if that is a terminal; it is told what is done, and of how much."""
    console = Console(stderr=True, markup=False, highlight=False)
    if quiet or not console.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=printable(f"{name}: {what}"))

        yield report


def _measured(progress: Progress) -> str:
    info: Any = progress.info
    named = (("f", "f"), ("q̂", "q"), ("λ", "lam"))
    values = [(name, getattr(info, key, None)) for name, key in named]
    return "  ".join(f"{name} {float(value):.3g}" for name, value in values if value is not None)


def _console() -> Console:
    return Console(markup=False, highlight=False)
