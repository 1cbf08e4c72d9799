"""What a cleaning leaves in its folder.

config.json        what was cleaned, by digest; written first
fit/               the state of an unfinished fit, to continue from
weights.csv        a weight for each row, in the order of the input
issues.csv         the suspicious rows, most suspicious first
model.safetensors  the final model, for `bome predict`
findings.json      what the page tells
report.html        everything on one page
summary.json       the outcome in numbers; written last
"""

import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bome._typing import Report
from bome._version import __version__
from bome.apps.clean import saved
from bome.apps.clean.display import Display
from bome.apps.clean.inputs import Inputs, Request
from bome.errors import StorageError
from bome.estimators.cleaner import HyperCleaner
from bome.estimators.findings import findings, suspicious
from bome.reports.cleaner import rendered
from bome.storage import jsonfile
from bome.storage.atomic import write_atomic
from bome.storage.folder import Folder, free_place

KIND = "clean"
WEIGHTS, ISSUES, FINDINGS, REPORT, FIT = "weights.csv", "issues.csv", "findings.json", "report.html", "fit"
FILES = (WEIGHTS, ISSUES, saved.MODEL, FINDINGS, REPORT)


def default_place(inputs: Inputs) -> Path:
    """A place under `runs/` that is free, or holds the very same cleaning."""
    return free_place(f"clean-{inputs.train.path.stem[:100]}", KIND, _spec(inputs))


def clean_into(place: Path, request: Request, inputs: Inputs, report: Report) -> dict[str, Any]:
    """Clean a table and write everything that there is to say; goes on with what is unfinished.

    Args:
        place: the folder.
        request: what is to be cleaned.
        inputs: the tables that it names.
        report: hears of the stages.

    Returns:
        The summary; its status is "finished before" if nothing was left to do.

    Raises:
        ProblemError: the folder holds something else.
        StorageError: it cannot be written, or is damaged.
    """
    folder, command = Folder(place), request.command(place)
    state = folder.claim(KIND, _spec(inputs), command)
    summary = folder.summary()
    if state == "finished" and summary is not None and all((place / name).is_file() for name in FILES):
        return {**summary, "status": "finished before"}
    started = time.monotonic()
    cleaner = HyperCleaner(random_state=request.seed % 2**32)
    trusted = inputs.trusted_x, inputs.trusted_y
    cleaner.fit(inputs.x, inputs.y, *trusted, progress=report, record=place / FIT, key=inputs.digest)
    report("writing", 0, 1)
    summary = _write(place, request, inputs, cleaner)
    page(place)
    summary |= {"seconds": time.monotonic() - started, "command": command, "version": __version__}
    folder.finish(summary)
    shutil.rmtree(place / FIT, ignore_errors=True)
    return summary


def page(place: Path) -> Path:
    """Write the page of a cleaning, from its files alone.

    Raises:
        ProblemError: the cleaning has not ended.
        StorageError: the files are damaged.
    """
    path, command = place / FINDINGS, Folder(place).config().command
    if not path.exists():
        raise Folder(place).unfinished()
    values = jsonfile.read_object(path)
    try:
        text = rendered(values, values["title"], command)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise StorageError(f"{path} is damaged: it does not hold what a cleaning finds") from None
    write_atomic(place / REPORT, text)
    return place / REPORT


def _spec(inputs: Inputs) -> dict[str, str]:
    return {"digest": inputs.digest}


def _write(place: Path, request: Request, inputs: Inputs, cleaner: HyperCleaner) -> dict[str, Any]:
    """Write all files but the page and the summary, and return what the summary tells of them."""
    issues = cleaner.label_issues()
    wrong = suspicious(issues)
    lines = inputs.train.lines
    write_table(place / WEIGHTS, pd.DataFrame({"row": np.arange(len(inputs.y)), "weight": cleaner.sample_weight_}))
    if lines is not None:
        wrong = wrong.assign(line=lines[wrong["row"].to_numpy(dtype=np.int64)])
        wrong = wrong[["line", *(name for name in wrong.columns if name != "line")]]
    write_table(place / ISSUES, wrong)
    saved.save(place / saved.MODEL, saved.of_cleaner(cleaner, inputs.layout, request.label))
    values = findings(cleaner, issues, Display(inputs.train, inputs.layout))
    jsonfile.write(place / FINDINGS, {"title": f"Labels of {request.train.name}", **values})
    same = ("rows", "suspicious", "noise_rate", "choice", "choice_reason", "candidates", "certificate", "steps")
    return {
        "status": "finished",
        "digest": inputs.digest,
        "trusted_rows": len(inputs.trusted_y),
        "features": int(inputs.x.shape[1]),
        "classes": [str(name) for name in cleaner.classes_],
        **{name: values[name] for name in same},
    }


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a CSV file in which no cell is a formula to a spreadsheet."""
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]):
            safe[name] = [harmless(str(value)) for value in safe[name]]
    safe.columns = pd.Index([harmless(str(name)) for name in safe.columns])
    write_atomic(path, safe.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def harmless(cell: str) -> str:
    """The cell with an apostrophe before it if a spreadsheet would compute it; numbers stay numbers."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) or re.fullmatch(
        r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", cell
    ):
        return cell
    return f"'{cell}"
