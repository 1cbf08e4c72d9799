"""What every method has unless it says otherwise, and what its measurements add up to."""

from typing import Any

import pytest
import torch

from bome import BOME, AutogradOracle, BackwardOracle, GradientDescent
from bome.errors import UnsupportedError
from bome.methods.base import Info, Method, check_accepted, second_order
from bome.oracles.base import Needs
from tests.support.samples import toy


class Mine(Method):
    """A method of a user, with nothing but a step."""

    def step(self, oracle: Any, point: Any, state: Any, batches: Any, metric: Any) -> Any:
        """None at all."""
        raise NotImplementedError


class Choosy(Mine):
    """It solves nothing."""

    name = "choosy"

    def refusal(self, problem: Any) -> str:
        """Always."""
        return "it solves nothing"


def test_a_method_is_named_after_its_class_by_default() -> None:
    assert Mine.name == "mine"
    assert BOME.name == "bome"


def test_by_default_a_method_is_first_order_without_state_on_one_batch_of_each_kind() -> None:
    mine, problem = Mine(), toy()
    assert mine.requires == Needs.FIRST_ORDER
    assert (mine.inner_batches, mine.outer_batches, mine.period) == (1, 1, 1)
    assert mine.init(AutogradOracle(problem), problem.point) == {}
    assert mine.cost is None
    assert mine.inner_map is None
    assert mine.refusal(problem) is None
    assert BOME(GradientDescent(0.1)).inner_map == GradientDescent(0.1)


def test_the_settings_of_a_method_name_it_with_its_fields() -> None:
    settings = BOME(GradientDescent(0.1, 3), eta=0.7).settings()
    assert settings["method"] == "bome"
    assert "eta=0.7" in settings["settings"]
    assert "steps=3" in settings["settings"]


def test_a_problem_that_a_method_refuses_is_refused_in_its_words() -> None:
    check_accepted(toy(), Mine())
    with pytest.raises(UnsupportedError, match="choosy cannot solve this problem: it solves nothing"):
        check_accepted(toy(), Choosy())


def test_second_order_products_come_from_the_default_oracle_only() -> None:
    oracle = AutogradOracle(toy())
    assert second_order(oracle) is oracle
    with pytest.raises(UnsupportedError, match="BackwardOracle cannot give second-order products"):
        second_order(BackwardOracle(toy()))


def test_the_measure_of_stationarity_is_the_sum_of_its_parts_where_both_are_known() -> None:
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    full = Info(one, q=two, kkt_gradient=one)
    assert full.kkt is not None
    assert float(full.kkt) == 3
    assert full.numbers() == {"f": 1.0, "q": 2.0, "kkt_gradient": 1.0, "kkt": 3.0}
    assert Info(one, q=two).kkt is None
    assert Info(one).numbers() == {"f": 1.0}
