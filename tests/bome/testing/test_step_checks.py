"""The checks of one step catch what they are there to catch."""

from typing import Any, ClassVar

import pytest
import torch

from bome import Batches
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, scale, sub
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle
from tests.support.plain import Plain, fails


class WritesToTheta(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        point.theta[0].mul_(0.5)
        return step


class DrawsNumbers(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        noise = tuple(1e-3 * torch.randn_like(x) for x in step.direction.v)
        return step._replace(direction=Pair(sub(step.direction.v, noise), ()))


class KeepsLists(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"old": list(point.theta)}  # type: ignore[dict-item]


class GrowsState(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"old": (torch.zeros(()),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(state={"old": (*state["old"], torch.zeros(()))})


class KeepsLiveTensors(Plain):
    def init(self, oracle: Oracle, point: Pair) -> State:
        return {"v": point.v}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        return super().step(oracle, point, state, batches, metric)._replace(state={"v": point.v})


class WrongPrecision(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(direction=Pair(tuple(x.float() for x in step.direction.v), ()))


class VectorInfo(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(info=Info(step.info.f, q=step.info.f[None]))


class MovesThetaTwice(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(direction=Pair(step.direction.v, point.theta))


class MovesThetaUnsaid(Plain):
    moves_theta: ClassVar[bool] = False

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(new_theta=scale(metric.theta[0], point.theta))


class MeasuresATailUnsaid(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        return step._replace(info=Info(step.info.f, tail=step.info.f))


_kept: list[Any] = []


class KeepsTensors(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        _kept.append([x.clone() for x in step.direction.v])
        return step


class KeepsGraph(Plain):
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        with torch.enable_grad():
            _kept.append([x.clone().requires_grad_().square().sum() for x in step.direction.v])
        return step


class Remembers(Plain):
    calls: ClassVar[list[int]] = []

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        step = super().step(oracle, point, state, batches, metric)
        self.calls.append(1)
        return step._replace(direction=Pair(scale(1.0 + 0.1 * len(self.calls), step.direction.v), ()))


BROKEN: list[tuple[type[Method], str]] = [
    (WritesToTheta, "check_arguments_are_left_alone"),
    (WritesToTheta, "check_a_step_can_be_repeated"),
    (DrawsNumbers, "check_random_numbers_are_left_alone"),
    (DrawsNumbers, "check_two_runs_are_equal"),
    (KeepsLists, "check_state_keeps_its_form"),
    (GrowsState, "check_state_keeps_its_form"),
    (KeepsLiveTensors, "check_state_has_memory_of_its_own"),
    (WrongPrecision, "check_direction_has_the_form_of_the_variables"),
    (WrongPrecision, "check_precisions"),
    (VectorInfo, "check_info_is_scalars_without_graph"),
    (MovesThetaTwice, "check_direction_has_the_form_of_the_variables"),
    (MeasuresATailUnsaid, "check_info_is_scalars_without_graph"),
    (MovesThetaUnsaid, "check_direction_has_the_form_of_the_variables"),
    (KeepsTensors, "check_graphs_are_freed"),
    (KeepsGraph, "check_graphs_are_freed"),
    (Remembers, "check_two_runs_are_equal"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_method_fails_the_check_that_is_there_for_it(broken: type[Method], name: str) -> None:
    fails(broken, name)
    _kept.clear()
