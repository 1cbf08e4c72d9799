"""Learning a mixture of text files: what `bome mix` reads, checks and writes.

mix.json           what was mixed, by digest; written first
fit/               history and checkpoints, to continue from
weights.json       the weight of each source
figures/           the weights and the losses over the steps
model.safetensors  the model at the end, and how to build it
report.html        everything on one page
summary.json       the outcome in numbers; written last
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from bome._version import __version__
from bome.apps.mix import page
from bome.errors import ProblemError, StorageError
from bome.mixture.fit import DataMixture, sequence_losses
from bome.mixture.gpt import GPT, bytes_of
from bome.mixture.sources import Text
from bome.runs.directory import FIGURES, REPORT, SUMMARY, free_place, plain
from bome.stopping import Progress
from bome.storage.atomic import write_atomic

MIX, WEIGHTS, MODEL, FIT = "mix.json", "weights.json", "model.safetensors", "fit"
BYTES = 256
HELD_OUT = 0.2
"""The share of the target, at its end, that only reports."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a mixture of text files; those of `DataMixture` and of the model.

    Attributes:
        width: of the model.
        layers: of the model.
    """

    steps: int = 300
    warmup: int = 300
    inner_steps: int = 5
    inner_lr: float = 0.2
    theta_lr: float = 2e-3
    outer_lr: float = 0.1
    eta: float = 1.0
    batch: int = 4
    target_batch: int = 32
    length: int = 32
    form: str = "softmax"
    width: int = 32
    layers: int = 1


@dataclass(frozen=True)
class Inputs:
    """Texts, read and checked.

    Attributes:
        sources: the tokens of each source.
        target: those of the target that are learned from.
        held_out: those that only report.
        digest: of all of this, the recipe and the seed.
    """

    sources: dict[str, Tensor]
    target: Tensor
    held_out: Tensor
    digest: str


def recipe(given: Mapping[str, str]) -> Recipe:
    """The settings, with those given as text; refused if no model or mixture can be made with them."""
    kinds = {each.name: each.type for each in fields(Recipe)}
    values: dict[str, Any] = {}
    for key, text in given.items():
        if key not in kinds:
            raise ProblemError(f"unknown setting {key!r}; known: {', '.join(kinds)}")
        kind = kinds[key]
        try:
            values[key] = kind(text) if callable(kind) else text
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise ProblemError(f"{key} must be {wanted}, got {text!r}") from None
    found = Recipe(**values)
    build(found)
    _mixture(found, 0)
    return found


def parse_sources(given: Sequence[str]) -> dict[str, Path]:
    """The sources of all `--source name=path`."""
    found: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign or not name or not path:
            raise ProblemError(f"--source wants NAME=PATH, such as --source books=books.txt, got {text!r}")
        if name in found:
            raise ProblemError(f"two sources are called {name!r}: give each a name of its own")
        found[name] = Path(path)
    if len(found) < 2:
        raise ProblemError("a mixture needs at least two sources: give --source twice or more")
    return found


def read(sources: Mapping[str, Path], target: Path, settings: Recipe, seed: int) -> Inputs:
    """Read the texts.

    Raises:
        ProblemError: there is nothing in one of them, or too little.
        StorageError: a file cannot be read.
    """
    wanted = settings.length + 1
    texts = {name: _tokens(path, wanted) for name, path in sources.items()}
    whole = _tokens(target, round(wanted / HELD_OUT) + 1)
    cut = round(len(whole) * (1 - HELD_OUT))
    key = hashlib.sha256(json.dumps([__version__, seed, asdict(settings), list(texts)]).encode())
    for tokens in (*texts.values(), whole):
        key.update(hashlib.sha256(tokens.numpy().tobytes()).digest())
    return Inputs(texts, whole[:cut], whole[cut:], key.hexdigest())


def _tokens(path: Path, fewest: int) -> Tensor:
    """The bytes of a file, or of all files of a folder in the order of their names."""
    if not path.exists():
        raise ProblemError(f"{path} does not exist")
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    try:
        text = b"\n\n".join(each.read_bytes() for each in files)
    except OSError as error:
        raise StorageError(f"cannot read {error.filename or path}: {error.strerror}") from error
    if len(text) < fewest:
        raise ProblemError(f"{path} has {len(text):,} bytes of text, but at least {fewest:,} are needed")
    return bytes_of(text)


# --- the folder ------------------------------------------------------------------------------------------------------


def default_folder(target: Path, key: str) -> Path:
    """A place under `runs/` that is free, or holds the very same mixture."""
    return free_place(f"mix-{target.stem[:100]}", lambda place: _digest_of(place) == key)


def prepare(folder: Path, key: str, command: str) -> None:
    """Make the folder of a mixture; an unfinished fit of the same inputs stays.

    Raises:
        ProblemError: the folder holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is a file: choose another --out")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MIX).exists():
            raise ProblemError(f"{folder} is not empty and holds no mixture: choose another --out")
        if _digest_of(folder) != key:
            raise ProblemError(f"{folder} holds the mixture of other texts or settings: choose another --out")
    write_atomic(folder / MIX, _dump({"digest": key, "command": command, "version": __version__}))


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """The summary of the very same mixture, if it is complete."""
    if not (folder / SUMMARY).is_file() or _digest_of(folder) != key:
        return None
    summary = _read_json(folder / SUMMARY)
    return summary if summary.get("digest") == key else None


def _digest_of(folder: Path) -> str | None:
    return str(_read_json(folder / MIX).get("digest")) if (folder / MIX).is_file() else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StorageError(f"{path} is damaged: it is not a JSON object; remove its folder and start again")
    return found


# --- fitting and writing ---------------------------------------------------------------------------------------------


def fit(
    folder: Path, inputs: Inputs, settings: Recipe, seed: int, progress: Callable[[Progress], None] | None
) -> tuple[DataMixture, GPT]:
    """Learn the mixture with a small GPT; continues what was stopped."""
    torch.manual_seed(seed)
    model = build(settings)
    mixture = _mixture(settings, seed)
    mixture.fit(model, inputs.sources, inputs.target, progress=progress, record=folder / FIT)
    return mixture, model


def _mixture(settings: Recipe, seed: int) -> DataMixture:
    given = {key: value for key, value in asdict(settings).items() if key not in ("width", "layers")}
    return DataMixture(**given, seed=seed)


def build(settings: Recipe) -> GPT:
    """The model of a recipe."""
    return GPT(BYTES, settings.length, settings.width, settings.layers)


def held_out_loss(model: GPT, inputs: Inputs, settings: Recipe) -> float:
    """The loss on the part of the target that was not learned from."""
    with torch.no_grad():
        return float(sequence_losses(model, Text("target", inputs.held_out, 256, settings.length, 0).next()).mean())


def write(
    folder: Path, inputs: Inputs, settings: Recipe, mixture: DataMixture, model: GPT, *, command: str, seconds: float
) -> dict[str, Any]:
    """Write everything that a fitted mixture has to say.

    Returns:
        The summary.
    """
    summary = {
        "status": "finished",
        "digest": inputs.digest,
        "weights": mixture.weights_,
        "tokens": {name: len(tokens) for name, tokens in inputs.sources.items()},
        "target_tokens": len(inputs.target),
        "f": mixture.result_.f,
        "q": mixture.result_.q,
        "held_out_loss": held_out_loss(model, inputs, settings),
        "steps": mixture.result_.steps,
        "evaluations": mixture.result_.evaluations,
        "certificate": mixture.result_.certificate.to_dict(),
        "settings": asdict(settings),
        "seconds": seconds,
        "command": command,
        "version": __version__,
    }
    write_atomic(folder / WEIGHTS, _dump(mixture.weights_))
    told = json.dumps({"vocabulary": BYTES, **{key: getattr(settings, key) for key in ("length", "width", "layers")}})
    write_atomic(folder / MODEL, safetensors.torch.save(dict(model.state_dict()), {"bome": told}))
    drawings = page.drawings(mixture.history_)
    for drawing in drawings:
        write_atomic(folder / FIGURES / f"{drawing.name}.svg", drawing.svg)
    write_atomic(folder / REPORT, page.rendered(summary, drawings))
    write_atomic(folder / SUMMARY, _dump(summary))
    return summary


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(plain(dict(value)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
