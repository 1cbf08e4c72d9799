"""f and g as fixed functions that may be asked a limited number of times: what tests look through."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch

from bome._typing import Leaves
from bome.core.microbatches import MicroBatches
from bome.core.ranks import shard_of
from bome.core.trees import dot
from bome.oracles import Oracle
from bome.oracles.base import Eval, Wrt
from bome.oracles.traces import generators, replay
from bome.problem import Batches

DOUBT = 3.0
"""Two halves of a sample differ by d: their mean is trusted to so many d. Of a mean of two 1 in 10 is further off."""


class SpentError(Exception):
    """No further evaluation is allowed."""


class Meter:
    """Counts evaluations of single batches.

    Attributes:
        allowed: the most of them.
        counts: those so far, by kind.
    """

    def __init__(self, allowed: float = math.inf) -> None:
        self.allowed = allowed
        self.counts: Counter[str] = Counter()

    @property
    def spent(self) -> int:
        """All so far."""
        return sum(self.counts.values())

    def charge(self, kind: str, evaluations: int) -> None:
        """Allow so many more, or raise `SpentError`."""
        if self.spent + evaluations > self.allowed:
            raise SpentError
        self.counts[kind] += evaluations


class Difference(NamedTuple):
    """A difference of two values of a loss, and how far it may be wrong.

    Attributes:
        value: the difference.
        noise: its error, where batches are a sample; 0 where they are all data.
    """

    value: float
    noise: float = 0.0

    def holds(self, limit: float) -> bool | None:
        """Whether it is at most `limit`; None where noise hides that."""
        if not math.isfinite(self.value) or self.value - self.noise > limit:
            return False
        return True if self.value + self.noise <= limit else None


def mean(values: Sequence[float]) -> Difference:
    """What the halves of a sample say together; of all data there is one value."""
    return Difference(sum(values) / len(values), DOUBT * (max(values) - min(values)))


class Looks:
    """f and g on some batches, at any point.

    Every evaluation sees the same random numbers (dropout masks), so that values can be compared.

    Attributes:
        meter: what evaluations are charged to.
        problem: whose losses they are.
    """

    def __init__(self, oracle: Oracle, batches: Batches, meter: Meter) -> None:
        self.meter = meter
        self._oracle = oracle
        self._batches = {"f": _joined(batches.outer), "g": _joined(batches.inner)}
        self._noise = generators()
        self.problem = oracle.problem

    def f(self, v: Leaves, theta: Leaves, wrt: Wrt = "both") -> Eval:
        """f and its gradient."""
        return self._look("f", v, theta, wrt)

    def g(self, v: Leaves, theta: Leaves, wrt: Wrt = "both") -> Eval:
        """g and its gradient."""
        return self._look("g", v, theta, wrt)

    def _look(self, which: Literal["f", "g"], v: Leaves, theta: Leaves, wrt: Wrt) -> Eval:
        batch = self._batches[which]
        self.meter.charge(which, len(batch) if isinstance(batch, MicroBatches) else 1)
        replay(self._noise)
        return (self._oracle.outer if which == "f" else self._oracle.inner)(v, theta, batch, wrt)


def halves(batches: Batches) -> tuple[Batches, ...]:
    """A sample of batches in two halves; one batch stays whole."""
    middle = len(batches.inner) // 2
    if not middle:
        return (batches,)
    return (
        Batches(inner=batches.inner[:middle], outer=batches.outer[:middle]),
        Batches(inner=batches.inner[middle:], outer=batches.outer[middle:]),
    )


def _joined(batches: Sequence[Any]) -> Any:
    """Several batches as one."""
    return batches[0] if len(batches) == 1 else MicroBatches(batches)


def sizes(x: Leaves, least: float) -> list[float]:
    """The root mean square of the entries of each leaf, at least `least`."""
    return [max(least, math.sqrt(float(dot((leaf,), (leaf,))) / leaf.numel())) for leaf in x]


def near(x: Leaves, radius: float, least: float, generator: torch.Generator) -> Leaves:
    """A random point at a distance of about `radius` times the size of each leaf."""
    out = []
    for leaf, size in zip(x, sizes(x, least), strict=True):
        drawn = radius * size * torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
        out.append(leaf + shard_of(drawn.to(leaf.device, leaf.dtype), leaf))
    return tuple(out)
