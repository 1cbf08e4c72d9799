"""`bome report`: make figures and page again from what a run or a study left on disk."""

from importlib.metadata import entry_points
from pathlib import Path

from bome.cli.console import line
from bome.cli.options import Docs, Quiet
from bome.cli.options import Folder as RunFolder
from bome.errors import ProblemError
from bome.reports import write_report


def report(folder: RunFolder, docs: Docs = None, quiet: Quiet = False) -> None:
    """Make the report page of a run, a directory of runs or a study again; computes nothing.

    Of the continual-learning study also while some of its runs have not ended.
    """
    page = _write(folder, docs)
    if not quiet:
        line(f"report: {page}")


def _write(folder: Path, docs: Path | None) -> Path:
    if (folder / "experiment.json").exists():
        make_page = entry_points(group="bome.pages")["reproduce"].load()
        path: Path = make_page(folder, docs)
        return path
    if docs is not None:
        raise ProblemError(f"--docs is for studies, and {folder} holds none")
    return write_report(folder)
