"""`bome mix`: learn how much of each data source a language model should be trained on."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bome.cli.console import line, print_json, progress_bar, resumable, table
from bome.cli.options import Json, Out, Quiet, Seed, parse_settings

SETTINGS = (
    "steps, warmup, inner_steps, inner_lr, theta_lr, outer_lr, eta, batch, target_batch, length, form, width or layers"
)


def mix(
    source: Annotated[
        list[str], typer.Option("--source", metavar="NAME=PATH", help="A text file or folder; give two or more.")
    ],
    target: Annotated[Path, typer.Option("--target", help="A text file or folder to do well on.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help=f"A setting: {SETTINGS}; may be repeated."),
    ] = None,
    out: Out = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn the weights of text sources, with a small GPT over bytes, so that it does well on a target text.

    Writes weights.json, model.safetensors and report.html. Goes on where it was stopped.
    """
    from bome.apps.mix import outputs
    from bome.apps.mix.inputs import Request, parse_sources, read

    request = Request(parse_sources(source), target, parse_settings(settings), seed)
    inputs = read(request)
    place = outputs.default_place(request, inputs) if out is None else out
    steps = inputs.recipe.steps
    with resumable(place), progress_bar(steps, quiet=quiet or as_json) as bar:
        summary = outputs.mix_into(place, request, inputs, bar.follow("mix", steps))
    _tell(place, summary, quiet=quiet, as_json=as_json)


def _tell(folder: Path, summary: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json({**summary, "folder": str(folder)})
    elif not quiet:
        weights = sorted(summary["weights"].items(), key=lambda item: -item[1])
        table("weights of the sources", ("source", "weight"), [(name, f"{weight:.1%}") for name, weight in weights])
        line(f"loss on held-out target text {summary['held_out_loss']:.3f}; report: {folder / 'report.html'}")
