"""A run as reports see it, made without a folder."""

from typing import Any

from bome.reports.runs import Run


def make_run(rows: list[dict[str, Any]], task: str = "other", start: str = "a", name: str = "x") -> Run:
    """A run with these rows and no summary."""
    settings = {"variant": "code", "start": start}
    return Run(name, task, "", "bome", settings, (), "", rows, {})
