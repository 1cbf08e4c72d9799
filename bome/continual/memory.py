"""Memories of continual learning: which training samples are kept for replay.

They hold numbers of samples, never images: a sample is (task, row) of the stream.
"""

from typing import Any

import torch
from torch import Tensor


class Ring:
    """A ring of slots for each task.

    The first sample of a task fills all of its slots, so that they are never empty. A batch that reaches the end of the
    ring loses the samples that are left, and the next one begins anew, as published.

    Args:
        tasks: how many there are.
        slots: for each task.

    Attributes:
        rows: the sample in each slot of each task.
        task: the task last written to; −1 before that.
    """

    def __init__(self, tasks: int, slots: int) -> None:
        self.rows = torch.zeros(tasks, slots, dtype=torch.int64)
        self._place = 0
        self.task = -1

    @property
    def slots(self) -> int:
        """Of each task."""
        return self.rows.shape[1]

    def write(self, task: int, rows: Tensor) -> None:
        """Keep samples of a task."""
        if task != self.task:
            self.task, self._place = task, 0
            self.rows[task] = rows[0]
        end = min(self._place + len(rows), self.slots)
        self.rows[task, self._place : end] = rows[: end - self._place]
        self._place = end % self.slots

    def newest(self, task: int) -> Tensor:
        """The sample written last, as a tensor of one number."""
        return self.rows[task, self._place - 1][None].clone()

    def samples(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Task and row of every slot of the first tasks."""
        return torch.arange(tasks).repeat_interleave(self.slots), self.rows[:tasks].reshape(-1)

    def draw(self, tasks: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Task and slot of samples drawn from the first tasks, each at most once."""
        places = torch.randperm(tasks * self.slots, generator=generator)[:count]
        return places // self.slots, places % self.slots

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"rows": self.rows.clone(), "place": self._place, "task": self.task}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.rows, self._place, self.task = state["rows"], state["place"], state["task"]


class Reservoir:
    """A uniform sample of all that was seen (Vitter, 1985).

    Args:
        slots: in all.
    """

    def __init__(self, slots: int) -> None:
        self.pairs = torch.zeros(slots, 2, dtype=torch.int64)
        self.seen = 0

    def __len__(self) -> int:
        return min(self.seen, len(self.pairs))

    def write(self, task: int, rows: Tensor, generator: torch.Generator) -> None:
        """Offer samples of a task one after the other."""
        for row in rows.tolist():
            place = self.seen
            if place >= len(self.pairs):
                place = int(torch.randint(self.seen + 1, (), generator=generator))
            if place < len(self.pairs):
                self.pairs[place] = torch.tensor([task, row])
            self.seen += 1

    def samples(self) -> tuple[Tensor, Tensor]:
        """Task and row of all samples."""
        kept = self.pairs[: len(self)]
        return kept[:, 0], kept[:, 1]

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Task and row of samples, each at most once."""
        pairs = self.pairs[torch.randperm(len(self), generator=generator)[:count]]
        return pairs[:, 0], pairs[:, 1]

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"pairs": self.pairs.clone(), "seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.pairs, self.seen = state["pairs"], state["seen"]
