"""The page over several experiments: what of each holds, with a link to its own page."""

import os
from pathlib import Path

from bome._version import __version__
from bome.reports.html import environment
from bome.runs.directory import REPORT
from bome.storage.checkpoint import write_atomic
from bome_studies.page import command, counts, read, read_experiment

INDEX = "index.html"


def write_overview(path: Path, folders: list[Path]) -> Path:
    """Write the page over the experiments in these folders, made from their files alone.

    Args:
        path: the page.
        folders: of experiments that have ended.
    """
    experiments = []
    for folder in folders:
        findings, (name, preset) = read(folder), read_experiment(folder)
        experiments.append(
            {
                "name": name,
                "title": findings.title,
                "about": findings.about,
                "counts": counts(findings.claims),
                "command": command(name, preset),
                "link": Path(os.path.relpath(folder / REPORT, path.parent)).as_posix(),
                "missing": [claim.text + ": " + claim.found for claim in findings.claims if claim.holds is False],
            }
        )
    page = environment().get_template("overview.html").render(experiments=experiments, version=__version__)
    write_atomic(path, page)
    return path
