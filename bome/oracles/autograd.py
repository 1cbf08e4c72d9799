"""The default oracle: `torch.autograd.grad` on detached leaves."""

from typing import Any

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.distributed import synchronises
from bome.errors import UnsupportedError
from bome.oracles.base import Needs, Oracle, Which, Wrt
from bome.problem import Batches, Problem, Role
from bome.trees import Pair


class AutogradOracle(Oracle):
    """Eager evaluation; parameters of modules are lent to them for the time of a call. No graph outlives it."""

    provides = Needs.FIRST_ORDER | Needs.HVP | Needs.UNROLL

    def __init__(self, problem: Problem) -> None:
        if any(synchronises(module) for module in problem.modules):
            raise UnsupportedError(
                "AutogradOracle would silently use the gradients of one rank for a DDP or FSDP2 module: "
                "use BackwardOracle (oracle='auto' picks it)"
            )
        super().__init__(problem)

    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        v = tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        theta = tuple(x.detach().requires_grad_(wrt != "v") for x in theta)
        wanted = Pair(v if wrt != "theta" else (), theta if wrt != "v" else ())
        with torch.enable_grad():
            value = self.problem.loss(which, v, theta, batch, self._borrowed_buffers(which))
            grads = gradients(value, wanted.v + wanted.theta)
        return value.detach(), Pair(grads[: len(wanted.v)], grads[len(wanted.v) :])


def gradients(value: Tensor, leaves: Leaves) -> Leaves:
    """∂value/∂leaves, zeros where the value does not depend on a leaf."""
    if not value.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    return torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)


def connections(problem: Problem, batches: Batches) -> set[tuple[Which, Role]]:
    """Through which losses a gradient flows to which variable: one evaluation of each, which leaves no trace."""
    found: set[tuple[Which, Role]] = set()
    point = problem.point
    rows, batches = problem.localise(batches)
    v = tuple((x if rows is None else x[rows]).requires_grad_() for x in point.v)
    theta = tuple(x.requires_grad_() for x in point.theta)
    pairs: tuple[tuple[Which, Any], ...] = (("f", batches.outer[0]), ("g", batches.inner[0]))
    with torch.random.fork_rng(), torch.enable_grad():
        for which, batch in pairs:
            buffers = {name: buffer.clone() for name, buffer in problem.buffers.items()}
            value = problem.loss(which, v, theta, batch, buffers)
            if value.requires_grad:
                grads = torch.autograd.grad(value, v + theta, allow_unused=True)
                if any(g is not None for g in grads[: len(v)]):
                    found.add((which, "v"))
                if any(g is not None for g in grads[len(v) :]):
                    found.add((which, "theta"))
    return found
