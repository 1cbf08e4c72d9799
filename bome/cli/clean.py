"""`bome clean`: find the wrong labels of a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bome.cli.console import line, print_json, resumable, stage_bar, table
from bome.cli.options import Json, Out, Quiet, Seed

if TYPE_CHECKING:  # scikit-learn takes a while to import
    from bome.apps.clean.inputs import Request

Columns = list[str] | None


def clean(
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="A CSV or Parquet file with labels to be judged.")],
    trusted: Annotated[Path, typer.Option("--trusted", help="A file with the same columns and right labels.")],
    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="The column of the label.")],
    text: Annotated[
        Columns, typer.Option("--text", metavar="COLUMN", help="A column of text; may be repeated.")
    ] = None,
    image: Annotated[
        Columns, typer.Option("--image", metavar="COLUMN", help="A column of paths to images; may be repeated.")
    ] = None,
    drop: Annotated[
        Columns, typer.Option("--drop", metavar="COLUMN", help="A column to leave out; may be repeated.")
    ] = None,
    out: Out = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find the wrong labels of a table by a few trusted rows. Goes on where it was stopped.

    Writes weights.csv, issues.csv, model.safetensors (for 'bome predict') and report.html.
    """
    from bome.apps.clean.inputs import Request

    request = Request(train, trusted, label, tuple(text or ()), tuple(image or ()), tuple(drop or ()), seed)
    folder, summary = clean_into(out, request, quiet=quiet)
    if as_json:
        print_json({**summary, "folder": str(folder)})
    elif not quiet:
        table(f"labels of {train.name}", ("", "result"), outcome(summary))
        line(f"report: {folder / 'report.html'}")


def clean_into(out: Path | None, request: "Request", *, quiet: bool) -> tuple[Path, dict[str, Any]]:
    """Clean a table; nothing is computed again that is already there.

    Returns:
        The folder, and the summary.
    """
    from bome.apps.clean import outputs
    from bome.apps.clean.inputs import read

    with stage_bar("clean", quiet=quiet) as report:
        report("reading", 0, 1)
        inputs = read(request)
        folder = outputs.default_place(inputs) if out is None else out
        with resumable(folder):
            return folder, outputs.clean_into(folder, request, inputs, report)


def outcome(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The outcome of a cleaning as rows of a table."""
    rows, wrong = summary["rows"], summary["suspicious"]
    return [
        ("status", str(summary["status"])),
        ("rows", f"{rows:,} with {len(summary['classes'])} classes, and {summary['trusted_rows']:,} trusted"),
        ("suspicious", f"{wrong:,} ({wrong / rows:.1%}), listed in issues.csv"),
        ("model", f"{summary['choice']}: {summary['choice_reason']}"),
        ("seconds", f"{summary['seconds']:.1f}"),
    ]
