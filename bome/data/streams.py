"""Streams of batches: seeded, and resumable to the very batch."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from bome.errors import ProblemError
from bome.problem import Batches


class Batch(NamedTuple):
    """A minibatch.

    Attributes:
        data: the rows of each tensor of the data set.
        rows: the indices of its samples in the data set, for outer variables with a row per sample.
        id: the number of the batch within its epoch, or within the partition it belongs to.
        parts: the size of that partition; 0 for batches that are drawn anew in every epoch.
    """

    data: tuple[Tensor, ...]
    rows: Tensor
    id: int
    parts: int = 0


@runtime_checkable
class Stream(Protocol):
    """An endless sequence of batches whose position can be saved and restored."""

    def next(self) -> Any:
        """The next batch."""

    def state_dict(self) -> dict[str, Any]:
        """The position."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position."""


class Constant:
    """The same batch every time: full-batch optimisation."""

    def __init__(self, batch: Any = None) -> None:
        self._batch = batch

    def next(self) -> Any:
        """The batch."""
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        """Nothing to save."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


class Minibatches:
    """Random minibatches of a data set, in a new order in every epoch; the last, shorter batch of an epoch is kept.

    Args:
        tensors: the data set: tensors whose first dimension counts the samples.
        size: samples in a batch.
        seed: of the order. The order of an epoch depends on the seed and the number of the epoch only.
    """

    def __init__(self, tensors: Sequence[Tensor], size: int, seed: int = 0) -> None:
        self._tensors = tuple(tensors)
        if not self._tensors or not all(isinstance(t, Tensor) and t.dim() for t in self._tensors):
            raise ProblemError("a data set is a tuple of tensors whose first dimension counts the samples")
        lengths = {len(t) for t in self._tensors}
        if len(lengths) != 1:
            raise ProblemError(f"the tensors of a data set must have one length, got {sorted(lengths)}")
        self._n = lengths.pop()
        if not isinstance(size, int) or not 1 <= size <= self._n:
            raise ProblemError(f"batch size must be between 1 and the {self._n} samples, got {size!r}")
        self._size, self._seed = size, seed
        self._epoch, self._id = 0, 0
        self._order = self._shuffled()

    def next(self) -> Batch:
        """The next minibatch."""
        if self._id * self._size >= self._n:
            self._epoch, self._id = self._epoch + 1, 0
            self._order = self._shuffled()
        rows = self._order[self._id * self._size : (self._id + 1) * self._size]
        batch = Batch(tuple(t[rows] for t in self._tensors), rows, self._id)
        self._id += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Seed, epoch and position within it."""
        return {"seed": self._seed, "epoch": self._epoch, "id": self._id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position."""
        self._seed, self._epoch, self._id = state["seed"], state["epoch"], state["id"]
        self._order = self._shuffled()

    def _shuffled(self) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed)
        generator.manual_seed(int(torch.randint(2**62, (), generator=generator)) + self._epoch)
        return torch.randperm(self._n, generator=generator).to(self._tensors[0].device)


class FixedBatches:
    """The batches of a fixed partition of a data set, each once in an epoch, in a new order in every epoch.

    For methods that keep something for each batch, such as `saba`. Sample i belongs to part i mod `parts`.

    Args:
        tensors: the data set: tensors whose first dimension counts the samples.
        parts: the number of batches, whose sizes differ by at most one sample.
        seed: of the order.
    """

    def __init__(self, tensors: Sequence[Tensor], parts: int, seed: int = 0) -> None:
        whole = Minibatches(tensors, 1, seed).next()  # refuses what is no data set
        self._tensors, self._parts, n = tuple(tensors), parts, len(tensors[0])
        if not isinstance(parts, int) or not 1 <= parts <= n:
            raise ProblemError(f"parts must be between 1 and the {n} samples, got {parts!r}")
        self._rows = torch.arange(n, device=whole.rows.device)
        self._order = Minibatches((torch.arange(parts),), 1, seed)

    def next(self) -> Batch:
        """The next batch."""
        part = int(self._order.next().rows)
        rows = self._rows[part :: self._parts]
        return Batch(tuple(t[rows] for t in self._tensors), rows, part, self._parts)

    def state_dict(self) -> dict[str, Any]:
        """The position."""
        return self._order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position."""
        self._order.load_state_dict(state)


class Loader:
    """Any iterable of batches, such as a `torch.utils.data.DataLoader`, started again whenever it ends.

    A `DataLoader` that shuffles is resumed exactly: the state of its generator (its own, or torch's) at the beginning
    of the epoch is saved, and the batches already used are passed over.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self._iterator: Iterator[Any] | None = None
        self._used = 0
        self._shuffle = self._random()

    def next(self) -> Any:
        """The next batch."""
        for _ in range(2):
            if self._iterator is None:
                self._shuffle, self._used = self._random(), 0
                self._iterator = iter(self._batches)
            batch = next(self._iterator, _END)
            if batch is not _END:
                self._used += 1
                return batch
            self._iterator = None
        raise ProblemError("the data loader gives no batches: is its data set empty, or can it be read only once?")

    def state_dict(self) -> dict[str, Any]:
        """Batches used in this epoch, and the shuffling generator at its beginning."""
        return {"used": self._used, "shuffle": self._shuffle}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position."""
        generator = getattr(self._batches, "generator", None)
        self._iterator = None
        with torch.random.fork_rng(enabled=generator is None):
            (torch.set_rng_state if generator is None else generator.set_state)(state["shuffle"])
            for _ in range(state["used"]):
                self.next()
        if not state["used"]:
            self._used, self._shuffle = 0, state["shuffle"]

    def _random(self) -> Tensor:
        generator = getattr(self._batches, "generator", None)
        return torch.get_rng_state() if generator is None else generator.get_state()


_END = object()


class Data:
    """The two streams of a run: batches for g and batches for f."""

    def __init__(self, *, outer: Stream | None = None, inner: Stream | None = None) -> None:
        self.inner: Stream = inner if inner is not None else Constant()
        self.outer: Stream = outer if outer is not None else Constant()

    def draw(self, *, outer: int, inner: int) -> Batches:
        """As many batches of each kind as a step takes."""
        return Batches(
            inner=tuple(self.inner.next() for _ in range(inner)), outer=tuple(self.outer.next() for _ in range(outer))
        )

    @property
    def whole(self) -> bool:
        """Whether each batch is all data."""
        return isinstance(self.inner, Constant) and isinstance(self.outer, Constant)

    def sampled(self, batches: int) -> Batches:
        """So many batches of each kind; one where it is all data."""
        number = 1 if self.whole else batches
        return self.draw(inner=number, outer=number)

    def state_dict(self) -> dict[str, Any]:
        """The positions of both."""
        return {"inner": self.inner.state_dict(), "outer": self.outer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to saved positions."""
        self.inner.load_state_dict(state["inner"])
        self.outer.load_state_dict(state["outer"])
