"""Gradients by `backward()` on the live parameters: for DDP and FSDP2 modules, compiled modules, large models."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.distributed import synchronises
from bome.oracles.base import Oracle, Which, Wrt
from bome.problem import Problem, Variable
from bome.trees import Pair


class BackwardOracle(Oracle):
    """Works in place: save, look ahead, `backward()`, take `.grad`, restore.

    The user's module is called as it is, wrapped or compiled. Over plain training this needs two more copies of the
    trainable parameters: θ_k during the look-ahead, and the first gradient of g.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._theta = _handles(problem.theta)
        self._partial = not any(synchronises(module) for module in problem.modules)  # their hooks want all gradients

    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        live_v = self.problem.v.leaves if self.problem.v.module is not None else None
        handles_v = live_v if live_v is not None else tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        leaves = handles_v + self._theta
        with (
            _lent(self._theta, theta),
            _lent(live_v, v),
            _without_gradients(leaves),
            self._running_statistics(which),
        ):
            with torch.enable_grad():
                value = self.problem.live_loss(which, handles_v, self._theta, batch)
            if value.requires_grad:
                wanted = (handles_v if wrt != "theta" else ()) + (self._theta if wrt != "v" else ())
                value.backward(inputs=wanted if self._partial else None)  # type: ignore[no-untyped-call]
            return value.detach(), Pair(
                self._filled(which, "v", handles_v, [x.grad for x in handles_v]) if wrt != "theta" else (),
                self._filled(which, "theta", self._theta, [x.grad for x in self._theta]) if wrt != "v" else (),
            )

    @contextmanager
    def _branch(self, theta: Leaves) -> Iterator[Leaves]:
        with _lent(self._theta, theta):
            saved = [x.detach().clone() for x in self._theta]
            try:
                yield tuple(x.detach() for x in self._theta)
            finally:
                _write(self._theta, saved)

    @contextmanager
    def _running_statistics(self, which: Which) -> Iterator[None]:
        """Undo what an evaluation does to the buffers, unless it is the first of g in the step."""
        first = which == "g" and not self._settled
        copies = self._borrowed_buffers(which)
        try:
            yield
        finally:
            if copies and not first:
                with torch.no_grad():
                    for name, buffer in self.problem.buffers.items():
                        buffer.copy_(copies[name])


def _handles(variable: Variable) -> Leaves:
    """Tensors that collect gradients and share memory with the live ones: parameters themselves, else aliases."""
    if variable.module is not None:
        return variable.leaves
    return tuple(x.detach().requires_grad_() for x in variable.leaves)


@contextmanager
def _without_gradients(leaves: Leaves) -> Iterator[None]:
    """Empty the `.grad` of live tensors for a while, then put back what the user had there."""
    held = [x.grad for x in leaves]
    for x in leaves:
        x.grad = None
    try:
        yield
    finally:
        for x, grad in zip(leaves, held, strict=True):
            x.grad = grad


def _write(targets: Leaves, values: Any) -> None:
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)


@contextmanager
def _lent(live: Leaves | None, values: Leaves) -> Iterator[None]:
    """Let the live tensors hold other values for a while; nothing to do where they are the same memory."""
    if live is None or all(x.data_ptr() == y.data_ptr() for x, y in zip(live, values, strict=True)):
        yield
        return
    saved = [x.detach().clone() for x in live]
    _write(live, values)
    try:
        yield
    finally:
        _write(live, saved)
