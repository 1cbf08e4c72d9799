"""Gradients as pure functions by `torch.func`: for `torch.compile`, and for `vmap` over starts, seeds and grids."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch.func import grad_and_value, vjp

from bome._typing import Leaves
from bome.constraints import Level
from bome.core.trees import Pair
from bome.errors import UnsupportedError
from bome.inner import DifferentiableMap, InnerMap, Look, StepMap
from bome.oracles.autograd import AutogradOracle
from bome.oracles.base import Branch, Covectors, Which, Wrt
from bome.problem import Batches, Problem

_ARGUMENTS: dict[Wrt, tuple[int, ...]] = {"both": (0, 1), "v": (0,), "theta": (1,)}


class FuncOracle(AutogradOracle):
    """Pure evaluation.

    Args:
        problem: the problem; its losses must be traceable by `torch.func`.
        compiled: compile each evaluation with `torch.compile` (needs a C++ compiler on the CPU).
    """

    def __init__(self, problem: Problem, compiled: bool = False) -> None:
        super().__init__(problem)
        self._functions: dict[tuple[Which, Wrt], Callable[..., Any]] = {}
        for which in ("f", "g"):
            for wrt, arguments in _ARGUMENTS.items():
                function = grad_and_value(self._loss(which), argnums=arguments, has_aux=True)
                self._functions[which, wrt] = torch.compile(function) if compiled else function

    def _loss(self, which: Which) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
        def loss(v: Leaves, theta: Leaves, batch: Any, buffers: dict[str, Tensor]) -> Any:
            buffers = {name: buffer.clone() for name, buffer in buffers.items()}  # torch.func forbids writing to these
            return self.problem.loss(which, v, theta, batch, buffers), buffers

        return loss

    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        live = self._borrowed_buffers(which)
        grads, (value, after) = self._functions[which, wrt](v, theta, batch, live)
        for name, buffer in live.items():
            buffer.copy_(after[name])
        return value.detach(), Pair(grads[0] if wrt != "theta" else (), grads[-1] if wrt != "v" else ())

    def _constrained(
        self, level: Level, v: Leaves, theta: Leaves, batches: Batches, covectors: Covectors, wrt: Wrt
    ) -> tuple[Leaves, tuple[Pair, ...]]:
        def vector(v: Leaves, theta: Leaves) -> tuple[Tensor, Leaves]:
            buffers = {name: buffer.clone() for name, buffer in self.problem.buffers.items()}
            parts = self.problem.constrained(level, v, theta, batches, buffers, lambda parts: parts)
            return torch.cat(parts), parts

        values, pull, parts = cast(Any, vjp(vector, v, theta, has_aux=True))
        found = [pull(w) for w in covectors(values)]
        return parts, tuple(Pair(v if wrt != "theta" else (), theta if wrt != "v" else ()) for v, theta in found)

    @contextmanager
    def _branch(self, start: Leaves, theta: Leaves) -> Iterator[Branch]:
        yield Branch(start, theta)

    def check_inner(self, inner: InnerMap) -> None:
        """Refuse maps that are not pure."""
        _pure(inner)

    def _advance(self, inner: StepMap, theta: Leaves, look: Look, buffers: Any) -> tuple[Leaves, Any]:
        theta, buffers = _pure(inner).advance(theta, look()[1], buffers)
        return self.problem.project_theta(theta), buffers


def _pure(inner: InnerMap) -> DifferentiableMap:
    if not isinstance(inner, DifferentiableMap):
        raise UnsupportedError(
            f"FuncOracle needs a pure inner map, not {type(inner).__name__}: use GradientDescent or AdamDescent, "
            "or AutogradOracle"
        )
    return inner
