"""`bome demo`: the toy problems of the paper solved in seconds, and a table of digits cleaned of wrong labels."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bome.cli.clean import clean_into
from bome.cli.console import line, number, progress_bar, resumable, table
from bome.cli.options import Quiet, Seed
from bome.errors import ProblemError
from bome.reports import write_report
from bome.runs import directory
from bome.runs.plan import Plan
from bome.runs.plan import plan as make_plan
from bome.stopping import Progress
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, SUMMARY, Folder

DEFAULT = Path("runs/demo")

DIGITS, CLEANED = "digits", "cleaned"
"""The folder of the tables with wrong labels, and in it that of what was found."""


class Toy(NamedTuple):
    """One run of the demonstration: its directory, its task and the settings in which it departs from the task's."""

    name: str
    task: str
    settings: dict[str, Any]


# Larger steps than the paper's, which then shrink: nearer to the solution in a sixth of the steps.
_CORESET = {"steps": 600, "outer_lr": 0.2, "momentum": 0.5, "decay": 100}

TOYS = (
    Toy("coreset-a", "coreset", {"start": "a", **_CORESET}),
    Toy("coreset-b", "coreset", {"start": "b", **_CORESET}),
    Toy("coreset-c", "coreset", {"start": "c", **_CORESET}),
    Toy("minimax", "minimax", {"steps": 500}),
    Toy("lls", "lls", {"steps": 100}),
    Toy("quadratic", "quadratic", {"steps": 600, "inner_lr": 0.45}),
    Toy("sine", "sine", {"steps": 120}),
)

ABOUT = (
    "A bilevel problem has two losses: find (v, θ) that makes the outer loss f small, where θ must be a minimiser of "
    "the inner loss g(v, ·). BOME solves it with gradients only: at each step it looks a few gradient steps ahead on g "
    "to see by how much θ misses the inner minimum (the gap q̂), and moves along ∇f + λ∇q̂, with the multiplier λ just "
    "large enough that the gap shrinks. Below it solves small problems whose solutions are known."
)


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")] = DEFAULT,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Solve the toy problems of the paper, then clean a table of digits with wrong labels: writes two pages."""
    folder, spec = Folder(out), {"seed": seed}
    _make_room(folder, spec)
    folder.claim("demo", spec, command_line("demo", out=out, seed=seed))
    with resumable(out):
        _solve_toys(out, seed, quiet=quiet)
        _clean_digits(out / DIGITS, seed, quiet=quiet)
    folder.finish({"status": directory.FINISHED, **spec})


def _solve_toys(out: Path, seed: int, *, quiet: bool) -> None:
    title, names = "BOME on problems with known solutions", [toy.name for toy in TOYS]
    command = command_line("demo", seed=seed or None)
    directory.write_collection(out, directory.Collection(title, ABOUT, command, names))
    plans = [make_plan(toy.task, "bome", toy.settings, seed) for toy in TOYS]
    rows = []
    with progress_bar(sum(plan.settings.steps for plan in plans), quiet=quiet) as bar:
        for toy, plan in zip(TOYS, plans, strict=True):
            progress = bar.follow(f"{toy.name:9}", plan.settings.steps)
            rows.append(_row(toy.name, _solved(out / toy.name, plan, progress)))
    page = write_report(out)
    if not quiet:
        table("", ("problem", "steps", "f", "optimal f", "distance", "gap q̂", "seconds"), rows)
        line(f"report: {page}")


def _solved(folder: Path, plan: Plan, progress: Callable[[Progress], None] | None) -> dict[str, Any]:
    """The summary of a run in its folder; if it has not ended there it starts again, since it takes seconds."""
    config = directory.configure(plan, save_every=plan.settings.steps)
    if (folder / CONFIG).exists() and directory.read_config(folder).spec == config.spec:
        summary = directory.read_summary(folder)
        if summary is not None and summary["status"] == directory.FINISHED:
            return summary
    directory.clear(folder)
    directory.prepare(folder, config)
    return directory.perform_into(folder, plan, config, progress=progress)


def _clean_digits(folder: Path, seed: int, *, quiet: bool) -> None:
    """Make labels wrong, find them, and hold what is found against the truth."""
    from bome.apps.clean import example  # scikit-learn takes a while to import

    digits = example.write_digits(folder, seed)
    cleaned, summary = clean_into(folder / CLEANED, digits.request, quiet=quiet)
    judged = example.judge(digits, cleaned)
    if quiet:
        return
    rows = [
        ("training rows", f"{summary['rows']:,}, of which {judged.wrong:,} have a wrong label"),
        ("trusted rows", f"{summary['trusted_rows']:,}"),
        ("suspicious", f"{judged.called:,}, among them {judged.found:,} of the {judged.wrong:,} wrong ones"),
        ("accuracy, all rows as they are", f"{judged.plain:.1%} on unseen digits"),
        ("accuracy, trusted rows only", f"{judged.trusted:.1%}"),
        ("accuracy, cleaned", f"{judged.accuracy:.1%}"),
        ("seconds", f"{summary['seconds']:.1f}"),
    ]
    table("handwritten digits with wrong labels, cleaned", ("", "result"), rows)
    line(f"report: {cleaned / 'report.html'}")


def _make_room(folder: Folder, spec: dict[str, Any]) -> None:
    """Remove an earlier demonstration, unless this one goes on with it; refuse a directory of something else."""
    out = folder.path
    if out.exists() and not out.is_dir():
        raise ProblemError(f"{out} is a file: choose another --out")
    files = {CONFIG, SUMMARY, directory.COLLECTION, directory.REPORT}
    known = {*files, *(toy.name for toy in TOYS), DIGITS, directory.FIGURES}
    others = sorted({path.name for path in out.iterdir()} - known) if out.is_dir() else []
    if others:
        raise ProblemError(f"{out} holds something else, such as {others[0]!r}: choose another --out")
    if folder.holds("demo", spec) and folder.summary() is None:
        return
    for name in files:
        (out / name).unlink(missing_ok=True)
    for place in (out / toy.name for toy in TOYS):
        directory.clear(place)
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    for name in (DIGITS, directory.FIGURES):
        shutil.rmtree(out / name, ignore_errors=True)


def _row(name: str, summary: dict[str, Any]) -> tuple[str, ...]:
    optimum = summary["optimum"]
    return (
        name,
        f"{summary['steps']:,}",
        number(summary["f"]),
        number(optimum["f"] if optimum else None),
        number(summary["distance_to_optimum"]),
        number(summary["q"]),
        f"{summary['seconds']:.1f}",
    )
