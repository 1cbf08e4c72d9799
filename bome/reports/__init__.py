"""Reports: figures and one page of HTML, made from run directories alone."""

from pathlib import Path


def write_report(folder: Path) -> Path:
    """Make the figures and the page of a run directory, of a directory of run directories, or of an experiment.

    Returns:
        The page.
    """
    # Not above: the figures need matplotlib, which most commands do not.
    if (folder / "experiment.json").exists():
        from bome.experiments import page

        return page.write_page(folder)
    from bome.reports.html import write_page

    return write_page(folder)


__all__ = ["write_report"]
