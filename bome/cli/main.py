"""The command `bome`: built-in verbs, those of other packages, and what becomes of errors and interruptions."""

import contextlib
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any, Protocol, TextIO, runtime_checkable

import typer

from bome._version import __version__
from bome.cli.clean import clean
from bome.cli.console import printable
from bome.cli.demo import demo
from bome.cli.ls import ls
from bome.cli.mix import mix
from bome.cli.predict import predict
from bome.cli.report import report
from bome.cli.resume import resume
from bome.cli.run import run
from bome.cli.solve import solve
from bome.cli.sweep import sweep
from bome.errors import BilevelError, StorageError
from bome.runs.names import plugins

Verb = Callable[..., None]

BUILT_IN: tuple[Verb, ...] = (demo, ls, solve, run, resume, sweep, report, clean, predict, mix)
"""In the order of the help; no plug-in can replace one."""

INTERNAL, IO, INTERRUPTED, PIPE, TERMINATED = 1, StorageError.exit_code, 128 + 2, 128 + 13, 128 + 15
"""Exit codes that belong to no kind of `BilevelError`."""


@dataclass
class Options:
    """The options before the verb."""

    debug: bool = False


@runtime_checkable
class UsageError(Protocol):
    """What the command line parser raises; its class has moved between versions of typer."""

    exit_code: int

    def format_message(self) -> str:
        """What is wrong."""


def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of errors.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Bilevel optimisation made easy: min f(v, θ) where θ minimises g(v, ·), with gradients only."""
    context.obj.debug = debug
    if version:
        typer.echo(f"bome {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit()


def verbs() -> dict[str, Verb]:
    """All verbs by name: the built-in ones, then those of the entry points `bome.verbs` in the order of their names."""
    own = {verb.__name__: verb for verb in BUILT_IN}
    return {**own, **dict(sorted(plugins("bome.verbs", own, _is_verb).items()))}


def _is_verb(thing: Any) -> bool:
    """Whether the command line can be made with this function; whatever is wrong with it is raised."""
    app = typer.Typer()
    app.command()(thing)
    typer.main.get_command(app)
    return True


def _app() -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings={"max_content_width": 100})
    app.callback(invoke_without_command=True)(options)
    for name, verb in verbs().items():
        app.command(name)(verb)
    return app


def main() -> None:
    """The entry point of the command."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Greek letters on a terminal that has none are no reason to fail
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Carry out a command line; whatever goes wrong becomes one line on stderr and an exit code."""
    given = Options()
    try:
        with _warnings_in_lines():
            code = typer.main.get_command(_app())(list(arguments), prog_name="bome", standalone_mode=False, obj=given)
            sys.stdout.flush()
    except SystemExit as end:
        code = PIPE if end.code == INTERNAL else end.code  # typer and rich leave with 1 when the reader is gone
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = PIPE
    except Exception as error:
        if given.debug:
            traceback.print_exc()
        code, message = _explain(error)
        _complain(message)
        return code
    if code == PIPE:
        _silence_stdout()
    elif code in (INTERRUPTED, TERMINATED):
        _complain("interrupted")
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> tuple[int, str]:
    """The exit code of an error and what to say of it."""
    if isinstance(error, BilevelError):
        return error.exit_code, "; ".join([str(error), *getattr(error, "__notes__", [])])
    if isinstance(error, UsageError):
        context: Any = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "bome"
        return error.exit_code, f"{error.format_message().rstrip('.')}; see '{command} --help'"
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return IO, f"{where}{error.strerror or error}"
    return INTERNAL, f"internal: {type(error).__name__}: {error}; 'bome --debug ...' shows where"


def _complain(message: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        typer.echo(f"error: {printable(message)}", err=True)


@contextlib.contextmanager
def _warnings_in_lines() -> Iterator[None]:
    """Show warnings meant for the user as one line each."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        typer.echo(f"warning: {printable(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _silence_stdout() -> None:
    """Nobody reads any more: let what is still buffered vanish quietly."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
