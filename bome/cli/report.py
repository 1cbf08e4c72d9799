"""`bome report`: make the page again from what a verb left on disk."""

import inspect
from collections.abc import Callable
from pathlib import Path

from bome.cli.console import line
from bome.cli.options import Docs, Quiet
from bome.cli.options import Folder as FolderArgument
from bome.errors import ProblemError
from bome.reports import write_report, write_solution, write_sweep
from bome.runs.names import plugins
from bome.storage.folder import CONFIG, Folder

Page = Callable[..., Path]
"""Makes the page of a folder and returns where it is; one that also takes `docs` can write documentation there."""


def report(folder: FolderArgument, docs: Docs = None, quiet: Quiet = False) -> None:
    """Make the page of a folder again: of a run, a solution, a sweep, a cleaning, a mixture, a study or several runs.

    Nothing is computed. Of the continual-learning study also while some of its runs have not ended.
    """
    page = make_page(folder, docs)
    if not quiet:
        line(f"report: {page}")


def make_page(folder: Path, docs: Path | None = None) -> Path:
    """Make the page of a folder, whatever wrote it, and its documentation if a place for that is given."""
    page = _page_of(folder)
    if docs is None:
        return page(folder)
    if "docs" not in inspect.signature(page).parameters:
        raise ProblemError(f"--docs is for studies, and {folder} holds none")
    return page(folder, docs=docs)


def _page_of(folder: Path) -> Page:
    if not (folder / CONFIG).exists():
        return write_report  # it may hold several runs
    kind = Folder(folder).config().kind
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    pages = plugins("bome.pages", BUILT_IN, callable)
    if kind not in pages:
        raise ProblemError(
            f"{folder}: no installed package makes pages of {kind!r}; known: {', '.join([*BUILT_IN, *pages])}"
        )
    page: Page = pages[kind]
    return page


def _clean(folder: Path) -> Path:
    from bome.apps.clean.outputs import page  # scikit-learn takes a while to import

    return page(folder)


def _mix(folder: Path) -> Path:
    from bome.apps.mix.outputs import page

    return page(folder)


def _demo(folder: Path) -> Path:
    if Folder(folder).summary() is None:
        raise Folder(folder).unfinished()
    return write_report(folder)


BUILT_IN: dict[str, Page] = {
    "run": write_report,
    "continual": write_report,
    "demo": _demo,
    "solve": write_solution,
    "sweep": write_sweep,
    "clean": _clean,
    "mix": _mix,
}
"""By the kind in config.json; no plug-in can replace one."""
