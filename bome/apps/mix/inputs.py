"""What is to be mixed: sources and a target of text, read and checked, and the settings."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from bome._checks import field_types, known, parse
from bome._version import __version__
from bome.errors import ProblemError, StorageError
from bome.mixture.fit import DataMixture
from bome.mixture.gpt import GPT, bytes_of
from bome.storage.command import command_line

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

    def mixture(self, seed: int) -> DataMixture:
        """What learns the weights."""
        model = ("width", "layers")
        return DataMixture(**{key: value for key, value in asdict(self).items() if key not in model}, seed=seed)

    def model(self) -> GPT:
        """The model, before it has learned anything."""
        return GPT(BYTES, self.length, self.width, self.layers)


@dataclass(frozen=True)
class Request:
    """What is to be mixed.

    Attributes:
        sources: by name.
        target: what the model should do well on.
        settings: those given, as text.
        seed: of whatever is drawn.
    """

    sources: Mapping[str, Path]
    target: Path
    settings: Mapping[str, str]
    seed: int = 0

    @property
    def recipe(self) -> Recipe:
        """All settings; refused if no model or mixture can be made with them."""
        kinds = field_types(Recipe)
        values = {known("setting", key, kinds): parse(key, text, kinds[key]) for key, text in self.settings.items()}
        recipe = Recipe(**values)
        recipe.model()
        recipe.mixture(self.seed)
        return recipe

    def command(self, out: Path) -> str:
        """The complete command."""
        texts = {"source": self.sources, "target": self.target}
        return command_line("mix", **texts, set=self.settings, out=out, seed=self.seed)


@dataclass(frozen=True)
class Inputs:
    """Texts, read and checked.

    Attributes:
        sources: the tokens of each source.
        target: those of the target that are learned from.
        held_out: those that only report.
        recipe: the settings.
        seed: of whatever is drawn.
        digest: of all of this, the recipe and the seed.
    """

    sources: dict[str, Tensor]
    target: Tensor
    held_out: Tensor
    recipe: Recipe
    seed: int
    digest: str


def parse_sources(given: Sequence[str]) -> dict[str, Path]:
    """The sources of all `--source name=path`."""
    sources: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign or not name or not path:
            raise ProblemError(f"--source wants NAME=PATH, such as --source books=books.txt, got {text!r}")
        if name in sources:
            raise ProblemError(f"two sources are called {name!r}: give each a name of its own")
        sources[name] = Path(path)
    if len(sources) < 2:
        raise ProblemError("a mixture needs at least two sources: give --source twice or more")
    return sources


def read(request: Request) -> Inputs:
    """Read the texts.

    Raises:
        ProblemError: there is nothing in one of them, or too little, or a setting cannot be right.
        StorageError: a file cannot be read.
    """
    recipe = request.recipe
    fewest = recipe.length + 1
    texts = {name: _tokens(path, fewest) for name, path in request.sources.items()}
    whole = _tokens(request.target, round(fewest / HELD_OUT) + 1)
    cut = round(len(whole) * (1 - HELD_OUT))
    digest = hashlib.sha256(json.dumps([__version__, request.seed, asdict(recipe), list(texts)]).encode())
    for tokens in (*texts.values(), whole):
        digest.update(hashlib.sha256(tokens.numpy().tobytes()).digest())
    return Inputs(texts, whole[:cut], whole[cut:], recipe, request.seed, digest.hexdigest())


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
