"""`bome report`: make figures and page again from a run directory."""

from bome.cli.console import line
from bome.cli.options import Folder as RunFolder
from bome.cli.options import Quiet
from bome.reports import write_report


def report(folder: RunFolder, quiet: Quiet = False) -> None:
    """Make the figures and the report page of a run, or of a directory of runs, again; computes nothing."""
    page = write_report(folder)
    if not quiet:
        line(f"report: {page}")
