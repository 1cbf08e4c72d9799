"""What a mixture leaves in its folder.

config.json        what was mixed, by digest; written first
fit/               history and checkpoints, to continue from
weights.json       the weight of each source
figures/           the weights and the losses over the steps
model.safetensors  the model at the end, and how to build it
report.html        everything on one page
summary.json       the outcome; written last
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from bome._version import __version__
from bome.apps.mix.inputs import BYTES, Inputs, Request
from bome.apps.mix.page import drawings, rendered
from bome.core.seeds import seed_everything
from bome.errors import StorageError
from bome.mixture.fit import DataMixture, sequence_losses
from bome.mixture.gpt import GPT
from bome.mixture.sources import Text
from bome.stopping import Progress
from bome.storage import jsonfile
from bome.storage.atomic import write_atomic
from bome.storage.folder import Folder, free_place

KIND = "mix"
WEIGHTS, MODEL, FIT, REPORT, FIGURES, METRICS = (
    "weights.json", "model.safetensors", "fit", "report.html", "figures", "metrics.jsonl",
)  # fmt: skip


def default_place(request: Request, inputs: Inputs) -> Path:
    """A place under `runs/` that is free, or holds the very same mixture."""
    return free_place(f"mix-{request.target.stem[:100]}", KIND, _spec(inputs))


def mix_into(
    place: Path, request: Request, inputs: Inputs, progress: Callable[[Progress], None] | None = None
) -> dict[str, Any]:
    """Learn a mixture and write everything that there is to say; goes on with what is unfinished.

    Args:
        place: the folder.
        request: what is to be mixed.
        inputs: the texts that it names.
        progress: called after each step.

    Returns:
        The summary; its status is "finished before" if nothing was left to do.

    Raises:
        ProblemError: the folder holds something else.
        StorageError: it cannot be written, or is damaged.
    """
    folder, command = Folder(place), request.command(place)
    state, summary = folder.claim(KIND, _spec(inputs), command), folder.summary()
    if state == "finished" and summary is not None:
        return {**summary, "status": "finished before"}
    started = time.monotonic()
    mixture, model = _fit(place, inputs, progress)
    summary = {**_summary(inputs, mixture, model), "seconds": time.monotonic() - started, "command": command}
    jsonfile.write(place / WEIGHTS, mixture.weights_)
    recipe = {"vocabulary": BYTES, **{key: getattr(inputs.recipe, key) for key in ("length", "width", "layers")}}
    write_atomic(place / MODEL, safetensors.torch.save(dict(model.state_dict()), {"bome": json.dumps(recipe)}))
    _write_page(place, summary, command)
    folder.finish(summary)
    return summary


def page(place: Path) -> Path:
    """Write the figures and the page of a mixture again, from its files alone.

    Raises:
        ProblemError: the mixture has not ended.
        StorageError: the files are damaged.
    """
    folder = Folder(place)
    summary = folder.summary()
    if summary is None:
        raise folder.unfinished()
    try:
        return _write_page(place, summary, folder.config().command)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise StorageError(f"{place} is damaged: its files do not hold what a mixture leaves") from None


def held_out_loss(model: GPT, inputs: Inputs) -> float:
    """The loss on the part of the target that was not learned from."""
    with torch.no_grad():
        return float(
            sequence_losses(model, Text("target", inputs.held_out, 256, inputs.recipe.length, 0).next()).mean()
        )


def _spec(inputs: Inputs) -> dict[str, str]:
    return {"digest": inputs.digest}


def _fit(place: Path, inputs: Inputs, progress: Callable[[Progress], None] | None) -> tuple[DataMixture, GPT]:
    """Learn the mixture with a small GPT."""
    seed_everything(inputs.seed)
    model = inputs.recipe.model()
    mixture = inputs.recipe.mixture(inputs.seed)
    return mixture.fit(model, inputs.sources, inputs.target, progress=progress, record=place / FIT), model


def _summary(inputs: Inputs, mixture: DataMixture, model: GPT) -> dict[str, Any]:
    return {
        "status": "finished",
        "digest": inputs.digest,
        "weights": mixture.weights_,
        "tokens": {name: len(tokens) for name, tokens in inputs.sources.items()},
        "target_tokens": len(inputs.target),
        "f": mixture.result_.f,
        "q": mixture.result_.q,
        "held_out_loss": held_out_loss(model, inputs),
        "steps": mixture.result_.steps,
        "evaluations": mixture.result_.evaluations,
        "certificate": mixture.result_.certificate.to_dict(),
        "settings": asdict(inputs.recipe),
        "version": __version__,
    }


def _write_page(place: Path, summary: dict[str, Any], command: str) -> Path:
    figures = drawings(jsonfile.read_rows(place / FIT / METRICS))
    for drawing in figures:
        write_atomic(place / FIGURES / f"{drawing.name}.svg", drawing.svg)
    write_atomic(place / REPORT, rendered(summary, figures, command))
    return place / REPORT
