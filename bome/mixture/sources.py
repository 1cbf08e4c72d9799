"""Sources of tokens, and streams of batches over several of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bome._checks import check_count
from bome.data.streams import Loader, Stream
from bome.errors import ProblemError

Tokens = Tensor | Iterable[Any]
"""A source: a long 1-d tensor of tokens, a 2-d one with a sequence in each row, or an iterable of batches."""

IGNORED = -100
"""Stands in place of tokens that are not there, in sequences shorter than the longest of their batch."""


class Text:
    """Random pieces of a source, `size` of them in a batch; the n-th batch depends on the seed and n only.

    Args:
        name: of the source, for messages.
        tokens: of the source, as a tensor.
        size: sequences in a batch.
        length: tokens in a sequence, of a 1-d source; one more is drawn, since each is predicted from those before it.
        seed: of what is drawn.
    """

    def __init__(self, name: str, tokens: Tensor, size: int, length: int, seed: int) -> None:
        check_count("length", length)
        check_count("size of a batch", size)
        whole = tokens.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
        if not whole or tokens.dim() not in (1, 2) or tokens.shape[-1] < 2:
            raise ProblemError(
                f"source {name!r} must be a 1-d tensor of token numbers, or a 2-d one with a sequence in each row, got "
                f"{tokens.dtype} of shape {tuple(tokens.shape)}"
            )
        if tokens.dim() == 1 and len(tokens) <= length:
            raise ProblemError(f"source {name!r} has {len(tokens)} tokens, fewer than the {length + 1} of a sequence")
        self._tokens, self._size, self._length, self._seed, self._used = tokens, size, length, seed, 0

    def next(self) -> Tensor:
        """The next batch: (size, length + 1) token numbers."""
        generator = torch.Generator().manual_seed(self._seed)
        generator.manual_seed(int(torch.randint(2**62, (), generator=generator)) + self._used)
        self._used += 1
        rows = self._tokens.dim() == 2
        starts = len(self._tokens) if rows else len(self._tokens) - self._length
        at = torch.randint(starts, (self._size,), generator=generator).to(self._tokens.device)
        if rows:
            return self._tokens[at].long()
        return self._tokens[at[:, None] + torch.arange(self._length + 1, device=at.device)].long()

    def state_dict(self) -> dict[str, Any]:
        """Seed and position."""
        return {"seed": self._seed, "used": self._used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position."""
        self._seed, self._used = state["seed"], state["used"]


def stream(name: str, tokens: Tokens, size: int, length: int, seed: int) -> Stream:
    """Batches of a source; those of an iterable are taken as they come."""
    if isinstance(tokens, Tensor):
        return Text(name, tokens, size, length, seed)
    if isinstance(tokens, (str, bytes)) or not hasattr(tokens, "__iter__"):
        raise ProblemError(
            f"source {name!r} must be a tensor of token numbers or an iterable of batches, got {type(tokens).__name__}"
        )
    return Loader(tokens)


def named(sources: Mapping[str, Tokens]) -> tuple[str, ...]:
    """The names of the sources."""
    if not isinstance(sources, Mapping) or len(sources) < 2 or not all(isinstance(name, str) for name in sources):
        raise ProblemError("sources must be a dict of at least two sources by name")
    return tuple(sources)


def padded(batch: Any, name: str) -> Tensor:
    """A batch as a 2-d tensor of token numbers; `input_ids` of a dict, the first element of a tuple."""
    if isinstance(batch, Mapping):
        batch = batch.get("input_ids")
    elif isinstance(batch, (tuple, list)) and batch:
        batch = batch[0]
    if not isinstance(batch, Tensor) or batch.dim() != 2 or batch.is_floating_point() or batch.shape[1] < 2:
        raise ProblemError(f"a batch of {name!r} must be (sequences, at least two tokens) of token numbers")
    return batch.long()


class AllSources:
    """A batch of every source at a time, one under the other."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = dict(streams)

    def next(self) -> tuple[Tensor, Tensor]:
        """The sequences of all sources, filled up with `IGNORED`, and the number of the source of each."""
        parts = [padded(each.next(), name) for name, each in self._streams.items()]
        longest = max(part.shape[1] for part in parts)
        filled = [torch.nn.functional.pad(part, (0, longest - part.shape[1]), value=IGNORED) for part in parts]
        device = parts[0].device
        numbers = [torch.full((len(part),), i, device=device) for i, part in enumerate(parts)]
        return torch.cat([part.to(device) for part in filled]), torch.cat(numbers)

    def state_dict(self) -> dict[str, Any]:
        """The positions of all."""
        return {"streams": [each.state_dict() for each in self._streams.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to saved positions."""
        for each, saved in zip(self._streams.values(), state["streams"], strict=True):
            each.load_state_dict(saved)


class MixedText:
    """Batches whose sequences come from several sources with given probabilities: for training with a learned mixture.

    Args:
        sources: by name, as tensors.
        probabilities: of each.
        size: sequences in a batch.
        length: tokens in a sequence.
        seed: of what is drawn.
    """

    def __init__(
        self, sources: Mapping[str, Tensor], probabilities: Sequence[float], size: int, length: int, seed: int = 0
    ) -> None:
        self._streams = {name: Text(name, x, 1, length, seed + i) for i, (name, x) in enumerate(sources.items())}
        self._weights = torch.as_tensor(probabilities, dtype=torch.float64)
        if self._weights.shape != (len(sources),) or not (self._weights >= 0).all() or not self._weights.sum() > 0:
            raise ProblemError(f"probabilities must be {len(sources)} numbers of at least 0, one for each source")
        self._size, self._generator = size, torch.Generator().manual_seed(seed)

    def next(self) -> Tensor:
        """The next batch."""
        picked = torch.multinomial(self._weights, self._size, replacement=True, generator=self._generator)
        streams = list(self._streams.values())
        return torch.cat([streams[i].next() for i in picked.tolist()])

    def state_dict(self) -> dict[str, Any]:
        """The positions of all."""
        streams = [each.state_dict() for each in self._streams.values()]
        return {"streams": streams, "generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to saved positions."""
        self._generator.set_state(state["generator"])
        for each, saved in zip(self._streams.values(), state["streams"], strict=True):
            each.load_state_dict(saved)
