"""`bome prices`: how the rooms are heated at each price. What is slow to import is imported inside of the function."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from bome.cli.console import line
from bome.cli.options import Quiet

KIND = "prices"
"""Of its folders; the entry point of their pages has the same name."""


def prices(
    steps: Annotated[int, typer.Option("--steps", min=1, help="Outer steps of each run.")] = 2000,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")] = Path("runs/prices"),
    quiet: Quiet = False,
) -> None:
    """Heat the rooms at every price, and compare how warm they get."""
    from bome.runs.perform import perform
    from bome.runs.plan import plan
    from bome.storage.folder import Folder
    from bome_rooms.page import write_page
    from bome_rooms.task import PRICES, describe

    folder = Folder(out)
    command = shlex.join(["bome", "prices", "--steps", str(steps), "--out", str(out)])
    if folder.claim(KIND, {"steps": steps}, command) != "finished":
        summary = {}
        for variant, price in PRICES.items():
            job = plan("rooms", "capped", {"variant": variant, "steps": steps})
            perform(job)
            summary[variant] = {"price": price, **describe(job.task.problem.point)}
        folder.finish(summary)
    page = write_page(out)
    if not quiet:
        line(f"report: {page}")
