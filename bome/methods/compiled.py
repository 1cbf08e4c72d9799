"""Whole-step compilation: any first-order method, its step traced once by `torch.compile`."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from bome._typing import State
from bome.barrier import Metric
from bome.errors import UnsupportedError
from bome.methods.base import Batches, Method, Step
from bome.oracles import FuncOracle, Oracle
from bome.problem import Problem
from bome.trees import Pair


@dataclass(frozen=True)
class Compiled(Method):
    """The method with its whole step compiled, for small models and small T (the T inner steps are unrolled).

    Needs a `FuncOracle`, losses without random numbers and, on the CPU, a C++ compiler. The first step runs eagerly,
    which counts its evaluations; every later one counts the same.
    """

    method: Method
    _memory: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the method."""
        return self.method.name

    @property
    def inner_batches(self) -> int:
        """As the method."""
        return self.method.inner_batches

    @property
    def outer_batches(self) -> int:
        """As the method."""
        return self.method.outer_batches

    def refusal(self, problem: Problem) -> str | None:
        """As the method."""
        return self.method.refusal(problem)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """As the method."""
        if not isinstance(oracle, FuncOracle):
            raise UnsupportedError(f"Compiled needs oracle='func', got {type(oracle).__name__}")
        return self.method.init(oracle, point)

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step; compiled from the second on."""
        if oracle.watching or "step" not in self._memory:
            before = oracle.counts.copy()
            step = self.method.step(oracle, point, state, batches, metric)
            self._memory["cost"] = oracle.counts - before
            self._memory["step"] = torch.compile(self.method.step, dynamic=False)
            return step
        compiled: Callable[..., Step] = self._memory["step"]
        cost: Counter[str] = self._memory["cost"]
        oracle.counts.update(cost)
        return compiled(oracle, point, state, batches, metric)
