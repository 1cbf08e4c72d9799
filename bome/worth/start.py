"""Where a run starts, and how a problem is put there for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bome._typing import Leaves
from bome.core.ranks import shard_of
from bome.core.seeds import random_state, restore_random
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.oracles.traces import snapshot
from bome.problem import Problem
from bome.worth.candidates import copies


class Start:
    """A copy of v, θ and the running statistics of a problem, in the memory of the CPU; make it before the run.

    Args:
        problem: as it is now.
    """

    def __init__(self, problem: Problem) -> None:
        self.v, self.theta = (copies(leaves) for leaves in problem.point)
        self.buffers = {name: copies((x,))[0] for name, x in problem.buffers.items()}

    @property
    def point(self) -> Pair:
        """Where it was."""
        return Pair(self.v, self.theta)

    def check(self, problem: Problem) -> None:
        """Refuse a start of another problem."""
        forms = [[(x.shape, x.dtype) for x in (*point.v, *point.theta)] for point in (self.point, problem.point)]
        if forms[0] != forms[1] or self.buffers.keys() != problem.buffers.keys():
            raise ProblemError("the start is of another problem: make Start(problem) before the run of this one")

    def write(self, problem: Problem) -> None:
        """Put θ and the running statistics of the problem there; v stays."""
        write(problem.point.theta, self.theta)
        live = problem.buffers
        write(tuple(live.values()), tuple(self.buffers[name] for name in live))

    def mirror(self, problem: Problem) -> None:
        """Put θ on the other side of the start, as far from it as it is; running statistics go back to the start."""
        theta = problem.point.theta
        for x, start in zip(theta, self.theta, strict=True):
            x.neg_().add_(shard_of(start, x).to(x.device), alpha=2)
        problem.project_theta.write(theta)
        write(tuple(problem.buffers.values()), tuple(self.buffers[name] for name in problem.buffers))

    def write_all(self, problem: Problem) -> None:
        """Put v there, too."""
        write(problem.point.v, self.v)
        self.write(problem)

    def state_dict(self) -> dict[str, Any]:
        """As checkpoints hold it."""
        return {"v": list(self.v), "theta": list(self.theta), "buffers": self.buffers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become that of a checkpoint."""
        self.v, self.theta, self.buffers = tuple(state["v"]), tuple(state["theta"]), state["buffers"]


@contextmanager
def undone(problem: Problem) -> Iterator[None]:
    """Whatever is done to θ, running statistics and random generators is undone; θ is kept on the CPU meanwhile."""
    restore, random, theta = snapshot(problem), random_state(), copies(problem.point.theta)
    try:
        yield
    finally:
        write(problem.point.theta, theta)
        restore()
        restore_random(random)


def write(targets: Leaves, values: Leaves) -> None:
    """Copy values, whole or laid out as they are, into live tensors."""
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(shard_of(value, target))
