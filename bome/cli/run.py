"""`bome run`: one method on one task."""

from typing import Annotated

import typer

from bome.cli.learning import DEFAULT, learn
from bome.cli.options import Json, OracleChoice, Out, Quiet, Seed, Settings, parse_settings
from bome.cli.running import carry_out
from bome.continual.settings import check_single_task
from bome.continual.streams import STREAMS
from bome.errors import ProblemError
from bome.loop import SAVE_EVERY
from bome.runs import directory


def run(
    task: Annotated[str, typer.Argument(help="The name of a task; 'bome ls tasks' lists them.")],
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="A method or strategy, or NAME:VARIANT; see 'bome ls methods'. By default bome, or ctn+bome.",
        ),
    ] = None,
    settings: Settings = None,
    seed: Seed = 0,
    out: Out = None,
    quiet: Quiet = False,
    as_json: Json = False,
    log_every: Annotated[
        int | None, typer.Option("--log-every", min=1, help="Steps between logged rows; by default about 500 rows.")
    ] = None,
    save_every: Annotated[
        int | None, typer.Option("--save-every", min=1, help=f"Steps between checkpoints; by default {SAVE_EVERY}.")
    ] = None,
    oracle: Annotated[
        OracleChoice | None, typer.Option("--oracle", help="How to differentiate; by default auto.")
    ] = None,
) -> None:
    """Run a method on a task; leaves a directory with configuration, metrics, checkpoints and a report."""
    if task in STREAMS:
        if log_every or save_every or oracle:
            raise ProblemError(
                f"--log-every, --save-every and --oracle do not apply to {task}, a stream of tasks: a row is logged "
                "after each of them, and checkpoints are saved by the clock"
            )
        learn(task, method or DEFAULT, {**parse_settings(settings)}, seed, out, quiet=quiet, as_json=as_json)
        return
    check_single_task(task, method or "bome")
    made = directory.checked_plan(task, method or "bome", parse_settings(settings), seed)
    config = directory.configure(
        made, oracle=oracle.value if oracle else "auto", log_every=log_every, save_every=save_every or SAVE_EVERY
    )
    folder = out if out is not None else directory.default_folder(config)
    directory.prepare(folder, config)
    carry_out(folder, made, config, resume=False, quiet=quiet, as_json=as_json)
