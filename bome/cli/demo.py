"""`bome demo`: the toy problems of the paper solved in seconds, and a table of digits cleaned of wrong labels."""

import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bome.cli.clean import clean_into
from bome.cli.console import line, number, progress_bar, table
from bome.cli.options import Quiet, Seed
from bome.errors import ProblemError
from bome.reports import write_report
from bome.runs import directory

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
    """Solve the toy problems of the paper, then clean a table of digits with wrong labels; ends with two pages."""
    _make_room(out)
    _solve_toys(out, seed, quiet=quiet)
    _clean_digits(out / DIGITS, seed, quiet=quiet)


def _solve_toys(out: Path, seed: int, *, quiet: bool) -> None:
    plans = [directory.checked_plan(toy.task, "bome", toy.settings, seed) for toy in TOYS]
    rows = []
    with progress_bar(sum(made.settings.steps for made in plans), quiet=quiet) as bar:
        for toy, made in zip(TOYS, plans, strict=True):
            config = directory.configure(made, save_every=made.settings.steps)
            directory.prepare(out / toy.name, config)
            progress = bar.follow(f"{toy.name:9}", made.settings.steps)
            rows.append(_row(toy.name, directory.solve_into(out / toy.name, made, config, progress=progress)))
    names = [toy.name for toy in TOYS]
    command = "bome demo" if seed == 0 else f"bome demo --seed {seed}"
    directory.write_collection(
        out, directory.Collection("BOME on problems with known solutions", ABOUT, command, names)
    )
    page = write_report(out)
    if not quiet:
        table("", ("problem", "steps", "f", "optimal f", "distance", "gap q̂", "seconds"), rows)
        line(f"report: {page}")


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


def _make_room(folder: Path) -> None:
    """Remove an earlier demonstration; refuse a directory of something else."""
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is a file: choose another --out")
    known = {*(toy.name for toy in TOYS), DIGITS, directory.COLLECTION, directory.FIGURES, directory.REPORT}
    others = sorted({path.name for path in folder.iterdir()} - known) if folder.is_dir() else []
    if others:
        raise ProblemError(f"{folder} holds something else, such as {others[0]!r}: choose another --out")
    for toy in TOYS:
        if (folder / toy.name).is_dir():
            directory.clear(folder / toy.name)
    if (folder / DIGITS / CLEANED / "config.json").is_file():
        shutil.rmtree(folder / DIGITS / CLEANED)


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
