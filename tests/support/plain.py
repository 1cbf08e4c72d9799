"""A method as simple as can be, for tests to break."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from bome import Batches, GradientDescent, testing
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.inner import InnerMap
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle


@dataclass(frozen=True)
class Plain(Method):
    """Inner steps, then v along f_v: as simple as a method can be."""

    inner: InnerMap = field(default_factory=lambda: GradientDescent(0.1, 2))

    name: ClassVar[str] = "plain"

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        theta = oracle.descend(point.v, point.theta, self.inner, batches.inner)
        f = oracle.outer(point.v, theta, batches.outer[0])
        return Step(Pair(f.grad.v, ()), state, Info(f.value), new_theta=theta)


def fails(broken: type[Method], name: str) -> None:
    """The method fails the check of that name."""
    check = next(check for check in testing.METHOD_CHECKS if check.__name__ == name)
    with pytest.raises(AssertionError, match=f"fails {name}: "):
        testing.run_check(check, broken)
