"""States of a search as checkpoints hold them: plain containers and tensors, and back."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from bome.nested.continuation import Run
from bome.nested.descent import Descent, Heading, Place
from bome.nested.rows import Kept
from bome.nested.search import State
from bome.nested.survey import Extent, Survey
from bome.nested.value import Memory, Point, Start, Units

_TYPES = (Descent, Extent, Heading, Kept, Memory, Place, Point, Run, Start, State, Survey, Units)
KINDS = {kind.__name__: kind for kind in _TYPES}
"""What a state is made of."""


def plain(value: Any) -> Any:
    """A state without types of its own."""
    kind = type(value).__name__
    if is_dataclass(value):
        return {"kind": kind, **{field.name: plain(getattr(value, field.name)) for field in fields(value)}}
    if hasattr(value, "_asdict"):
        return {"kind": kind, **{name: plain(part) for name, part in value._asdict().items()}}
    if isinstance(value, (tuple, list)):
        return tuple(plain(part) for part in value)
    if isinstance(value, dict):
        return {"kind": "dict", "of": value}
    if isinstance(value, np.ndarray):
        return {"kind": "array", "of": torch.from_numpy(value)}
    return float(value) if isinstance(value, float) else value


def revived(value: Any) -> Any:
    """The state again."""
    if isinstance(value, tuple):
        return tuple(revived(part) for part in value)
    if not isinstance(value, dict):
        return value
    if value["kind"] == "dict":
        return value["of"]
    parts = {name: revived(part) for name, part in value.items() if name != "kind"}
    return parts["of"].numpy() if value["kind"] == "array" else KINDS[value["kind"]](**parts)
