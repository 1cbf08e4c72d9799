"""A cleaned model on disk: one file of tensors with a description in JSON; reading it runs no code."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from bome._typing import Array
from bome.errors import ProblemError, StorageError
from bome.estimators.cleaner import HyperCleaner
from bome.estimators.softmax import Affine, probabilities
from bome.storage.atomic import write_atomic
from bome.tables.encoder import Encoder
from bome.tables.layout import Layout
from bome.tables.values import Table

MODEL = "model.safetensors"
FORMAT = 1
KEY = "bome"
"""The entry of the file's metadata that describes the model."""
_LARGEST = 1 << 32  # bytes; 1,000 classes of 1,000,000 features


@dataclass(frozen=True)
class SavedModel:
    """A classifier of tables.

    Attributes:
        label: the name of the column it predicts.
        classes: the labels, in the order of the probabilities.
        layout: from columns to features.
        encoder: the scale of the features.
        softmax: from features to classes.
    """

    label: str
    classes: tuple[str, ...]
    layout: Layout
    encoder: Encoder
    softmax: Affine

    def predict_proba(self, table: Table) -> Array:
        """The probability of each class for each row of a table that has all columns of the layout."""
        return probabilities(self.softmax.logits(self.encoder.transform(self.layout.features(table))))


def of_cleaner(cleaner: HyperCleaner, layout: Layout, label: str) -> SavedModel:
    """What is kept of a fitted cleaner.

    Raises:
        ProblemError: it was given a model of its own, which only its owner can save.
    """
    if not isinstance(cleaner._model, Affine):
        raise ProblemError("only the linear model can be saved; save your own module with its state_dict()")
    return SavedModel(label, tuple(map(str, cleaner.classes_)), layout, cleaner._encoder, cleaner._model)


def save(path: Path, model: SavedModel) -> None:
    """Write a model, all of it or nothing.

    Raises:
        StorageError: it cannot be written.
    """
    tensors = {**model.encoder.to_arrays(), "coef": model.softmax.coef, "intercept": model.softmax.intercept}
    tensors = {name: np.array(array, order="C") for name, array in tensors.items()}
    description = json.dumps({"label": model.label, "classes": model.classes, "layout": model.layout.to_dict()})
    # One entry, since several would be written in an order that changes from one process to the next.
    metadata = json.dumps({"format": FORMAT, "model": description, "sha256": _digest(description, tensors)})
    write_atomic(path, safetensors.numpy.save(tensors, {KEY: metadata}))


def load(path: Path) -> SavedModel:
    """Read a model after verifying it.

    Raises:
        ProblemError: there is none.
        StorageError: it cannot be read, is damaged, or of another format version.
    """
    if not path.is_file():
        raise ProblemError(f"{path} does not exist: make it with 'bome clean'")
    try:
        if path.stat().st_size > _LARGEST:
            raise StorageError(f"{path} is larger than any model")
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except (safetensors.SafetensorError, ValueError, TypeError, RuntimeError):
        raise StorageError(f"{path} is damaged: it is not a model") from None
    try:
        about = dict(json.loads(metadata.get(KEY, "")))
        description = str(about.get("model"))
    except (ValueError, TypeError, RecursionError):
        raise StorageError(f"{path} is damaged: it is not a model of bome") from None
    if about.get("format") != FORMAT:
        raise StorageError(f"{path} has format version {about.get('format')!r}; this version of bome reads {FORMAT}")
    if about.get("sha256") != _digest(description, tensors):
        raise StorageError(f"{path} is damaged: its checksum does not fit")
    return _decoded(path, description, tensors)


def _decoded(path: Path, description: str, tensors: dict[str, Array]) -> SavedModel:
    try:
        values = json.loads(description)
        softmax = Affine(tensors.pop("coef"), tensors.pop("intercept"))
        classes = tuple(map(str, values["classes"]))
        model = SavedModel(
            str(values["label"]), classes, Layout.from_dict(values["layout"]), Encoder.from_arrays(tensors), softmax
        )
        good = softmax.coef.ndim == 2 and softmax.coef.shape[1] == len(classes) == len(softmax.intercept) > 1
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:  # the digest fits, so this was written so
        raise StorageError(f"{path} is damaged: its content is malformed")
    return model


def _digest(description: str, tensors: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(description.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
