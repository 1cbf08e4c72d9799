"""Reports: figures and one page of HTML, made from the files of runs and sweeps alone."""

from pathlib import Path


def write_report(folder: Path) -> Path:
    """Make the figures and the page of a run directory, or of a directory of run directories.

    Returns:
        The page.
    """
    # Not above: the figures need matplotlib, which most commands do not.
    from bome.reports.html import write_page

    return write_page(folder)


def write_solution(folder: Path) -> Path:
    """Make the figures and the page of a task that was solved.

    Returns:
        The page.
    """
    from bome.reports.solutions import write_page

    return write_page(folder)


def write_sweep(folder: Path) -> Path:
    """Make the figures and the page of a sweep.

    Returns:
        The page.
    """
    from bome.reports.sweeps import write_page

    return write_page(folder)


__all__ = ["write_report", "write_solution", "write_sweep"]
