"""Whole-step compilation: any first-order method, its step traced once by `torch.compile`."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import UnsupportedError
from bome.inner import InnerMap
from bome.methods.base import Batches, Method, Step
from bome.oracles import FuncOracle, Oracle
from bome.oracles.base import Needs
from bome.oracles.traces import generators, moved
from bome.problem import Problem


@dataclass(frozen=True)
class Compiled(Method):
    """The method with its whole step compiled, for small models and small T (the T inner steps are unrolled).

    Needs a `FuncOracle`, losses without random numbers, modules without running statistics and, on the CPU, a C++
    compiler. Before the first step the method is run once eagerly, to count its evaluations; all steps count the same.

    Attributes:
        method: the method.
        backend: of `torch.compile`. "aot_eager" traces without a C++ compiler: slower steps, but ready at once.
    """

    method: Method
    backend: str = "inductor"
    _memory: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the method."""
        return self.method.name

    @property
    def requires(self) -> Needs:  # type: ignore[override]
        """What the method needs."""
        return self.method.requires

    @property
    def chooses(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.chooses

    @property
    def constrained(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.constrained

    @property
    def inner_map(self) -> InnerMap | None:
        """That of the method."""
        return self.method.inner_map

    @property
    def inner_batches(self) -> int:
        """As the method."""
        return self.method.inner_batches

    @property
    def outer_batches(self) -> int:
        """As the method."""
        return self.method.outer_batches

    def theta_steps(self, k: int) -> int:
        """As the method."""
        return self.method.theta_steps(k)

    def refusal(self, problem: Problem) -> str | None:
        """As the method; and running statistics cannot be compiled in."""
        if problem.buffers:
            return f"running statistics ({next(iter(problem.buffers))}) cannot change inside a compiled step"
        if self.method.decides:
            return "its step decides by numbers it has looked at, and a compiled one cannot"
        if self.method.period != 1:
            return "its steps differ in cost, and a compiled one is always the same"
        return self.method.refusal(problem)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """As the method."""
        if not isinstance(oracle, FuncOracle):
            raise UnsupportedError(f"Compiled needs oracle='func', got {type(oracle).__name__}")
        return self.method.init(oracle, point)

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step, compiled; eagerly where the oracle watches each evaluation."""
        if oracle.watching:
            return self.method.step(oracle, point, state, batches, metric)
        if "step" not in self._memory:
            self._memory["cost"] = self._cost(oracle, point, state, batches, metric)
            self._memory["step"] = torch.compile(self.method.step, dynamic=False, backend=self.backend)
        compiled: Callable[..., Step] = self._memory["step"]
        step = compiled(oracle, point, state, batches, metric)
        oracle.counts.update(self._memory["cost"])
        return step

    def _cost(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Counter[str]:
        """The evaluations of one step, by an eager one whose outcome is dropped."""
        counts, random = oracle.counts.copy(), generators()
        self.method.step(oracle, point, state, batches, metric)
        cost, oracle.counts = oracle.counts - counts, counts
        if moved(random):
            raise UnsupportedError("Compiled needs losses without random numbers (dropout): run the method as it is")
        return cost
