"""`bome report`: make figures and page again from what a run or an experiment left on disk."""

from pathlib import Path

from bome.cli.console import line
from bome.cli.options import Docs, Quiet
from bome.cli.options import Folder as RunFolder
from bome.errors import ProblemError
from bome.reports import write_report


def report(folder: RunFolder, docs: Docs = None, quiet: Quiet = False) -> None:
    """Make the report page of a run, a directory of runs or an experiment again; computes nothing.

    Of the continual-learning experiment also while some of its runs have not ended.
    """
    page = _write(folder, docs)
    if not quiet:
        line(f"report: {page}")


def _write(folder: Path, docs: Path | None) -> Path:
    from bome_studies import page  # not above: it loads all of the experiments

    if not page.is_experiment(folder):
        if docs is not None:
            raise ProblemError(f"--docs is for experiments, and {folder} holds none")
        return write_report(folder)
    written = _of_experiment(folder)
    if docs is not None:
        page.write_docs(folder, docs)
    return written


def _of_experiment(folder: Path) -> Path:
    from bome_studies import page
    from bome_studies.catalogue import SO_FAR
    from bome_studies.toys.trials import PARTS

    name, preset = page.read_experiment(folder)
    if name in SO_FAR and (folder / PARTS).is_dir():
        return page.write(folder, SO_FAR[name](preset, folder))
    return page.write_page(folder)
