"""Type aliases shared by all modules."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

Matrix = Any
"""A dense array or a SciPy CSR matrix with one row per sample."""

Leaves = tuple[Tensor, ...]
"""The tensors of one variable (v or θ), in a fixed order."""

State = dict[str, Leaves]
"""What a method carries from step to step: named groups of tensors."""

Loss = Callable[[Any, Any, Any], Tensor]
"""A loss `(v, theta, batch) -> scalar`, with v and theta in the form the user gave them."""

Projection = Callable[[Tensor], Tensor]
"""Maps a tensor to the nearest point of a set."""

Report = Callable[[str, int, int], None]
"""Hears how far work has come: `(stage, done, total)`."""
