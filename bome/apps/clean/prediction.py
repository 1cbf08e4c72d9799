"""Applying a saved model to a table of a file: what `bome predict` reads and writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bome.apps.clean import saved
from bome.apps.clean.outputs import write_table
from bome.errors import ProblemError
from bome.tables import scan
from bome.tables.values import canonical, load


def predict(folder: Path, data: Path, out: Path) -> dict[str, Any]:
    """Label each row of a table; columns that the model does not use are ignored.

    Returns:
        The number of rows and, where the table has labels of the classes of the model, how many and the share of them
        that the model agrees with.

    Raises:
        ProblemError: the folder holds no model, or the table lacks a column or has a cell that cannot be right.
        StorageError: a file cannot be read or written.
    """
    path = folder if folder.name == saved.MODEL else folder / saved.MODEL
    if not path.parent.is_dir():
        raise ProblemError(f"{path.parent} is not a directory: name one that 'bome clean' wrote")
    if out.is_dir():
        raise ProblemError(f"{out} is a directory: name a file with --out")
    model = saved.load(path)
    source = scan.scan(data)
    for kept, what in ((data, "table"), (path, "model")):
        if out.exists() and out.samefile(kept):
            raise ProblemError(f"{out} is the {what} itself: choose another --out")
    for name in model.layout.columns:
        scan.require(data, source.names, name, "which the model needs")
    numbers = set(model.layout.numbers)
    only = [*model.layout.columns, *([model.label] if model.label in source.names else [])]
    table = load(source, strings=set(only) - numbers, numbers=numbers, only=only, droppable=False)
    model.layout.warn_of_new_values(table)
    probabilities = model.predict_proba(table)
    best = probabilities.argmax(axis=1)
    labels = np.array(model.classes, dtype=object)[best]
    rows = np.arange(len(best))
    write_table(out, pd.DataFrame({"row": rows, "prediction": labels, "confidence": probabilities[rows, best]}))
    known = set(model.classes)
    given = [canonical(value) for value in table.frame[model.label]] if model.label in only else []
    hits = [a == b for a, b in zip(given, labels, strict=False) if a in known]
    accuracy = float(np.mean(hits)) if hits else None
    return {"rows": len(best), "labelled": len(hits), "accuracy": accuracy, "predictions": str(out)}
