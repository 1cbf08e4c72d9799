"""A batch in parts: gradient accumulation."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bome.errors import ProblemError


class MicroBatches:
    """A batch in parts that are evaluated one after the other; the loss of the whole is the mean over the parts.

    Gradients are added up before anything is made of them, so that a step has one multiplier. At any time only the
    graph of one part exists; second-order methods keep the graphs of all parts. DDP sends gradients once, with the last
    part.

    Args:
        parts: the micro-batches, in the form the losses take.
        weights: of the parts in the mean, such as their sizes; by default all count the same.

    Example:
        `stepper.step(inner=MicroBatches([first, second]), outer=batch)`
    """

    def __init__(self, parts: Iterable[Any], weights: Sequence[float] | None = None) -> None:
        self.parts = tuple(parts)
        if not self.parts or any(isinstance(part, MicroBatches) for part in self.parts):
            raise ProblemError("MicroBatches needs at least one part, and parts are batches")
        given = [1.0] * len(self.parts) if weights is None else [float(weight) for weight in weights]
        if len(given) != len(self.parts) or not all(0 < weight < math.inf for weight in given):
            raise ProblemError(f"MicroBatches needs a positive weight for each of {len(self.parts)} parts, got {given}")
        self.weights = tuple(weight / sum(given) for weight in given)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        """The parts and their shares of the mean."""
        return iter(zip(self.parts, self.weights, strict=True))

    def with_parts(self, parts: Iterable[Any]) -> "MicroBatches":
        """Other parts with the same weights."""
        return MicroBatches(parts, self.weights)
