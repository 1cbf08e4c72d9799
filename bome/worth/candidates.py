"""The v of some steps of a run, evenly spread however long it gets, for a choice of the best when it has ended."""

from typing import Any, NamedTuple

from torch import Tensor

from bome._typing import Leaves
from bome.core.ranks import shard_of
from bome.core.trees import clone

MOST = 8
"""So many are kept; with one more, every second one is dropped."""


class Candidate(NamedTuple):
    """A v of a run.

    Attributes:
        step: outer steps done before it.
        f: what the next step measured at the live θ; None of the last v, which has no next step.
        v: a copy, in the memory of the CPU.
    """

    step: int
    f: float | None
    v: Leaves


class Candidates:
    """Keeps every `stride`-th v of a run, from the first on; the stride doubles where they become too many."""

    def __init__(self) -> None:
        self.stride, self.kept = 1, list[Candidate]()

    def due(self, step: int) -> bool:
        """Whether the v before the next step is to be kept."""
        return step % self.stride == 0

    def add(self, step: int, f: Tensor, v: Leaves) -> None:
        """Keep this v, of which the next step has measured f."""
        self.kept.append(Candidate(step, float(f), v))
        if len(self.kept) > MOST:
            self.stride *= 2
            self.kept = [candidate for candidate in self.kept if self.due(candidate.step)]

    def state_dict(self) -> dict[str, Any]:
        """As checkpoints hold it."""
        return {"stride": self.stride, "kept": [[x.step, x.f, list(x.v)] for x in self.kept]}

    def load_state_dict(self, state: dict[str, Any], live: Leaves) -> None:
        """Become that of a checkpoint; whole tensors are laid out as the live ones are."""
        self.stride = state["stride"]
        self.kept = [
            Candidate(step, f, tuple(shard_of(x, like) for x, like in zip(v, live, strict=True)))
            for step, f, v in state["kept"]
        ]


def copies(leaves: Leaves) -> Leaves:
    """Copies in the memory of the CPU."""
    return tuple(x if x.device.type == "cpu" else x.cpu() for x in clone(leaves))
