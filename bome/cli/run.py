"""`bome run`: one method on one task, or one strategy on one stream of tasks."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bome.cli.console import line, number, print_json, progress_bar, resumable, stage_bar, table
from bome.cli.options import Json, OracleChoice, Out, Quiet, Seed, Settings, parse_settings
from bome.continual.run import Spec, learn
from bome.continual.settings import check_single_task
from bome.continual.streams import STREAMS
from bome.errors import BilevelError, NonFiniteError, ProblemError
from bome.loop import SAVE_EVERY
from bome.reports import write_report
from bome.runs import directory
from bome.runs.plan import Plan
from bome.runs.plan import plan as make_plan
from bome.storage.folder import free_place

METHOD, STRATEGY = "bome", "ctn+bome"
"""What is run on a task, and on a stream of tasks, where nothing is named."""


class StreamDivergedError(BilevelError):
    """NaN or infinity ended a run on a stream; its summary says where."""

    exit_code = 3


def run(
    task: Annotated[str, typer.Argument(help="The name of a task or stream; 'bome ls tasks' lists them.")],
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
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="Train θ anew with the last v, for F(v); by default where it costs at most a fifth of the run.",
        ),
    ] = None,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Take the v with the lowest F(v) of up to nine, not the last.")
    ] = False,
) -> None:
    """Run a method on a task: writes a folder with the configuration, metrics, checkpoints and a report."""
    if task in STREAMS:
        if log_every or save_every or oracle or refit is not None or keep_best:
            raise ProblemError(
                f"--log-every, --save-every, --oracle, --refit and --keep-best do not apply to {task}, a stream of "
                "tasks: a row is logged after each of them, and checkpoints are saved by the clock"
            )
        spec = Spec.from_settings(task, method or STRATEGY, parse_settings(settings), seed)
        run_stream(spec, out, quiet=quiet, as_json=as_json)
        return
    check_single_task(task, method or METHOD)
    plan = make_plan(task, method or METHOD, parse_settings(settings), seed)
    config = directory.configure(
        plan,
        oracle=oracle.value if oracle else "auto",
        log_every=log_every,
        save_every=save_every or SAVE_EVERY,
        refit=refit,
        keep_best=keep_best,
    )
    folder = out if out is not None else directory.default_folder(config)
    directory.prepare(folder, config)
    run_plan(folder, plan, config, resume=False, quiet=quiet, as_json=as_json)


def run_plan(folder: Path, plan: Plan, config: directory.Config, *, resume: bool, quiet: bool, as_json: bool) -> None:
    """Run, or continue, a plan in its directory, write the report and print the outcome."""
    steps = plan.settings.steps
    try:
        with resumable(folder), progress_bar(steps, quiet=quiet) as bar:
            progress = bar.follow(config.task, steps)
            summary = directory.perform_into(folder, plan, config, resume=resume, progress=progress)
    except NonFiniteError:
        write_report(folder)
        raise
    show(config, summary, write_report(folder), quiet=quiet, as_json=as_json)


def run_stream(spec: Spec, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    """Run a strategy on a stream of tasks, or continue it where the very same run was stopped."""
    folder = out if out is not None else free_place(spec.title)
    with resumable(folder), stage_bar(spec.stream, quiet=quiet) as progress:
        summary = asdict(learn(spec, folder, progress))
    page = write_report(folder)
    if summary["status"] == directory.DIVERGED:
        raise StreamDivergedError(summary["reason"])
    if as_json:
        print_json(summary)
    elif not quiet:
        table(f"{spec.stream} by {spec.strategy}, seed {spec.seed}", ("", "result"), _stream_rows(summary))
        line(f"report: {page}")


def show(config: directory.Config, summary: dict[str, Any], page: Path, *, quiet: bool, as_json: bool) -> None:
    """Print the outcome of a run on a task."""
    if as_json:
        print_json(summary)
    elif not quiet:
        table(f"{config.task} by {config.method}", ("", "result"), _rows(summary))
        line(f"report: {page}")


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The outcome of a run as rows of a table."""
    certificate, optimum = summary["certificate"] or {}, summary["optimum"]
    f = number(summary["f"]) + ("" if optimum is None else f" (optimum {number(optimum['f'])})")
    rows = [
        ("status", f"{summary['status']}: {summary['reason']}"),
        ("f", f),
        *worth_rows(summary),
        ("q̂", number(summary["q"])),
        ("distance to optimum", number(summary["distance_to_optimum"])),
        ("certificate", certificate.get("verdict", "–")),
        ("evaluations", _evaluations(summary)),
        ("for the certificate", _evaluations(certificate) or "–"),
        ("seconds", number(summary["seconds"])),
    ]
    for title, key in (("observed", "observed"), ("with θ solved afresh", "resolved")):
        if summary.get(key):
            rows.append((title, ", ".join(f"{name} {number(value)}" for name, value in summary[key].items())))
    return rows + _tuned(summary)


def worth_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """F(v) and what there is to warn of, or why it was not measured."""
    refit = summary.get("refit")
    if refit is None:
        reason = summary.get("worth", "").removeprefix("F(v) is ").replace("run(..., refit=True)", "--refit")
        return [("F(v)", reason)] if reason else []
    steps = f"{refit['steps']:,} steps on g alone"
    return [
        ("F(v)", f"{number(refit['F'])}: f after {steps}"),
        *([("v", choice)] if (choice := summary["worth"].split("\n")[0]).startswith("of ") else []),
        ("for F(v)", _evaluations(refit)),
        *(("warning", text) for text in refit["warnings"]),
    ]


def _stream_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The outcome of a run on a stream as rows of a table."""
    return [
        ("status", f"{summary['status']}: {summary['reason']}"),
        *(
            (name.upper(), f"{number(value)} {'%' if name in ('acc', 'ft') else 'points'}")
            for name, value in summary["observed"].items()
            if value is not None
        ),
        ("evaluations", _evaluations(summary) or "–"),
        ("seconds of learning", number(summary["seconds"])),
        *_tuned(summary),
    ]


def _evaluations(summary: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in summary.get("evaluations", {}).items() if count)


def _tuned(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What a tuner picked, as a row if there was one."""
    picked = ", ".join(f"{key} {number(value)}" for key, value in summary["tuned"].items())
    return [("tuned", picked)] if picked else []
