"""`bome solve`: a task with nothing to choose."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from bome.cli.console import StoppedError, line, note, number, print_json, progress_bar, resumable, table
from bome.cli.options import Json, Out, Quiet, Seed, Settings, parse_settings
from bome.reports import write_solution
from bome.runs.solving import SAVE_EVERY, SOLVE, Assignment, solve_into
from bome.stopping import Progress
from bome.storage.folder import Folder, free_place

MOST_SOLUTIONS = 5
"""Solutions that are printed."""


def solve(
    task: Annotated[str, typer.Argument(help="The name of a task; 'bome ls tasks' lists them.")],
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=1, help="The most evaluations: gradients of f or g, rows, values alone."),
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="The most seconds.")] = None,
    runs: Annotated[int | None, typer.Option("--runs", min=1, help="The most runs from different starts.")] = None,
    horizon: Annotated[
        int | None, typer.Option("--horizon", min=1, help="With batches: steps of θ when a v is judged.")
    ] = None,
    settings: Settings = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs side by side; the answer stays the same.")] = 1,
    out: Out = None,
    save_every: Annotated[
        int, typer.Option("--save-every", min=1, help="Evaluations of the value function between checkpoints.")
    ] = SAVE_EVERY,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Solve a task: no method, no step size. Writes a folder with the solution, its verdict and a page.

    The same command again goes on where it was stopped. Of the settings only `variant` and `start` apply; where the
    task has batches also `batch` and `outer_batch`, and then v is judged by training θ anew.
    """
    assignment = Assignment(task, parse_settings(settings), seed, budget, runs, seconds, horizon)
    most = assignment.most(assignment.build())  # refuses what cannot be solved, before anything is written
    spec = vars(assignment)
    folder = out if out is not None else free_place(f"solve-{task}-seed{seed}", SOLVE, spec)
    state = Folder(folder).claim(SOLVE, spec, assignment.command(folder, jobs))
    summary, stopped = Folder(folder).summary(), None
    if state == "finished" and summary is not None:
        if not quiet:
            note("finished already: nothing to do; a larger --budget needs another --out")
    else:
        with resumable(folder), progress_bar(most, quiet=quiet or as_json) as bar:
            progress = _by_evaluations(bar.follow(task, most))
            summary, stopped = solve_into(folder, assignment, jobs=jobs, save_every=save_every, progress=progress)
    _show(task, summary, quiet=quiet, as_json=as_json)
    if stopped is not None:
        error = StoppedError(128 + stopped)
        error.add_note(f"this is the best so far; continue with: {Folder(folder).again}")
        raise error
    page = write_solution(folder)
    if not quiet and not as_json:
        line(f"report: {page}")


def _by_evaluations(follow: Callable[[Progress], None] | None) -> Callable[[Progress], None] | None:
    """What follows a run by its steps, so that it follows one by its evaluations."""
    return None if follow is None else lambda progress: follow(progress._replace(step=progress.evaluations))


def _show(task: str, summary: Mapping[str, Any], *, quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json(summary)
    elif not quiet:
        table(f"{task} by solve", ("", "result"), _rows(summary))
        if "arms" in summary:
            table("v judged by training θ anew", ("v of", "F(v)", "live f"), _arms(summary["arms"]))
            for text in summary["warnings"]:
                note(text)
        elif len(summary["found"]) > 1:
            table("solutions found", ("F(v)", "runs", "v"), _found(summary["found"]))


def _rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The outcome as rows of a table."""
    optimum, ties, prices = summary["optimum"], summary.get("ties"), summary.get("prices", {})
    f = number(summary["f"]) + ("" if optimum is None else f" (optimum {number(optimum['f'])})")
    rows = [
        ("F(v) = f(v, θ*(v))", f),
        ("verdict", summary["certificate"]["verdict"]),
        ("v", vector(summary["v"])),
        ("θ*(v)", vector(summary["theta"])),
    ]
    if ties is not None and ties["worst"] > ties["best"]:
        rows.append(("F over inner minimisers", f"{number(ties['best'])} to {number(ties['worst'])}"))
    rows += [(f"shadow prices, {kind.replace('_', ' ')}", vector(values)) for kind, values in prices.items()]
    rows += [("arm", summary["arm"])] if "arm" in summary else []
    spent = ", ".join(f"{count:,} {what}" for what, count in summary["spent"].items() if count)
    return [
        *rows,
        *((name.replace("_", " "), number(value)) for name, value in summary["observed"].items()),
        ("ended", summary["reason"]),
        *([("runs", f"{summary['runs']:,}")] if "runs" in summary else []),
        ("evaluations", f"{sum(summary['spent'].values()):,}: {spent}"),
        ("chosen", ", ".join(f"{key} {number(value)}" for key, value in summary["tuned"].items())),
        ("seconds", number(summary["seconds"])),
    ]


def _found(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The distinct solutions, best first."""
    return [(number(each["f"]), f"{each['runs']}", vector(each["v"])) for each in found[:MOST_SOLUTIONS]]


def _arms(arms: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """What each v was worth."""
    return [(name, number(each["F"]), number(each["live"])) for name, each in arms.items()]


def vector(values: Sequence[float] | None) -> str:
    """The entries of a variable or of multipliers for people; those of a large one are not shown."""
    if values is None:
        return "in the checkpoint"
    return ", ".join(number(value) for value in values) or "–"
