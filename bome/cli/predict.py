"""`bome predict`: label a table by a cleaned model."""

from pathlib import Path
from typing import Annotated

import typer

from bome.cli.console import line, print_json
from bome.cli.options import Json, Quiet


def predict(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where 'bome clean' wrote, or its model.safetensors.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A CSV or Parquet file with the same columns.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write.")] = Path("predictions.csv"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict the label of each row: writes a CSV file with the columns row, prediction and confidence."""
    from bome.apps.clean import prediction

    found = prediction.predict(folder, data, out)
    if as_json:
        print_json(found)
    elif not quiet:
        if found["accuracy"] is not None:
            left = found["rows"] - found["labelled"]
            told = f" ({left:,} without a label that the model knows)" if left else ""
            line(f"accuracy against the labels of {data}: {found['accuracy']:.1%}{told}")
        line(f"{found['rows']:,} prediction{'s' if found['rows'] != 1 else ''}: {out}")
