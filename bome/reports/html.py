"""The page of a report: one file that needs nothing else and runs nothing."""

import base64
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bome._version import __version__
from bome.reports import tables
from bome.reports.figures import Drawing, draw
from bome.reports.runs import Group, Run, groups, load
from bome.runs.directory import FIGURES, REPORT
from bome.storage.atomic import write_atomic


def write_page(folder: Path) -> Path:
    """Write the figures and the page of a run directory, or of a directory of them."""
    collection, runs = load(folder)
    sections = []
    for number, group in enumerate(groups(runs)):
        drawings = draw(group)
        for drawing in drawings:
            prefix = f"{number + 1}-" if len(runs) > 1 else ""
            write_atomic(folder / FIGURES / f"{prefix}{drawing.name}.svg", drawing.svg)
        sections.append(_section(group, drawings))
    columns, lines = tables.overview(runs)
    page = environment().get_template("page.html").render(
        title=collection.title,
        about=collection.about,
        command=collection.command,
        overview=lines if len(runs) > 1 else [],
        columns=columns,
        sections=sections,
        version=__version__,
    )  # fmt: skip
    write_atomic(folder / REPORT, page)
    return folder / REPORT


def environment(*folders: Path) -> Environment:
    """How templates are filled, those in these folders and those that all pages share."""
    # Everything in a run directory may come from anywhere: autoescape shows it as text.
    loader = FileSystemLoader([*folders, Path(__file__).parent])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _section(group: Group, drawings: list[Drawing]) -> dict[str, Any]:
    return {
        "title": group.first.task,
        "about": group.first.about,
        "figures": [figure(drawing) for drawing in drawings],
        "runs": [_run(run) for run in group.runs],
    }


def figure(drawing: Drawing) -> dict[str, str]:
    """A figure as the templates show it."""
    data = base64.b64encode(drawing.svg).decode()
    return {"title": drawing.title, "caption": drawing.caption, "source": f"data:image/svg+xml;base64,{data}"}


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "method": run.method,
        "verdict": tables.verdict(run),
        "status": tables.status(run),
        "results": tables.results(run),
        "certificate": tables.certificate(run),
        "tests": tables.tests(run.summary.get("certificate") or {}),
        "settings": tables.settings(run),
        "command": run.command,
    }
