"""The checks of how a method behaves catch what they are there to catch."""

from typing import Any, ClassVar

import pytest
import torch

from bome import Batches
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle
from tests.support.plain import Plain, fails


class CountsOn(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"k": (torch.zeros((), dtype=torch.float64),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        (k,) = state["k"]
        for _ in range(int(k)):
            oracle.outer(*point, batches.outer[0])
        return super().step(oracle, point, state, batches, metric)._replace(state={"k": (k + 1,)})


class MisdeclaresCost(Plain):
    @property
    def cost(self) -> dict[str, int]:
        return {"g": 1, "f": 1}


class FirstLeafOnly(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        first, *others = step.direction.v
        return step._replace(direction=Pair((first, *(0 * x for x in others)), ()))


class HidesNaN(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        info = Info(torch.nan_to_num(step.info.f))
        clean = tuple(torch.nan_to_num(x) for x in step.direction.v)
        return Step(Pair(clean, ()), state, info, tuple(torch.nan_to_num(x) for x in step.new_theta or ()))


class DividesByZero(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        g = oracle.inner(point.v, point.theta, batches.inner[0], "theta").grad.theta
        size = sum(float(x.norm()) for x in g)
        return step._replace(direction=Pair(tuple(x / torch.tensor(size) for x in step.direction.v), ()))


class Boasts(Plain):
    settles: ClassVar[Any] = "solution"


BROKEN: list[tuple[type[Method], str]] = [
    (CountsOn, "check_cost_is_the_same_in_every_period"),
    (MisdeclaresCost, "check_cost_is_the_same_in_every_period"),
    (FirstLeafOnly, "check_form_of_variables_does_not_matter"),
    (HidesNaN, "check_nan_is_reported_and_undone"),
    (DividesByZero, "check_inner_solution_as_start"),
    (Boasts, "check_settles_where_it_says"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_method_fails_the_check_that_is_there_for_it(broken: type[Method], name: str) -> None:
    fails(broken, name)
