"""`bome report`: make figures and page again from what a run or an experiment left on disk."""

from pathlib import Path

from bome.cli.console import line
from bome.cli.options import Folder as RunFolder
from bome.cli.options import Quiet
from bome.reports import write_report


def report(folder: RunFolder, quiet: Quiet = False) -> None:
    """Make the report page of a run, a directory of runs or an experiment again; computes nothing."""
    page = _write(folder)
    if not quiet:
        line(f"report: {page}")


def _write(folder: Path) -> Path:
    from bome.experiments import page  # not above: it loads all of the experiments

    return page.write_page(folder) if page.is_experiment(folder) else write_report(folder)
