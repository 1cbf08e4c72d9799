"""LLS: its losses, its solutions, and what its inner problem leaves free."""

import math
from functools import partial

import pytest
from torch import Tensor

from bome.core.trees import Pair
from bome.tasks import Task, lls
from bome.testing import check_task
from tests.support.toys import VARIANTS, loss, tensor


@pytest.mark.parametrize("variant", VARIANTS["lls"])
def test_every_variant_passes_the_battery(variant: str) -> None:
    check_task(partial(lls, variant=variant))


@pytest.mark.parametrize(
    ("task", "v", "theta", "f", "g"),
    [
        # f = ½·(2 − 5)² + ½·(3 − 1)², g = ½·9 − 2·3.
        (lls(), tensor(2.0), tensor(3.0, 5.0), 6.5, -1.5),
        (lls("paper"), tensor(2.0), tensor(3.0, 5.0), 1.0 + 16.0, 1.0),
        (lls("corrected"), tensor(2.0), tensor(3.0, 5.0), 4.0 + 9.0, 1.0),
    ],
)
def test_losses_have_the_values_computed_by_hand(task: Task, v: Tensor, theta: Tensor, f: float, g: float) -> None:
    assert loss(task, "f", v, theta) == pytest.approx(f, rel=1e-14)
    assert loss(task, "g", v, theta) == pytest.approx(g, rel=1e-14)


def test_the_printed_lls_is_solved_by_every_v() -> None:
    """{(v, (v, 1))}: and (0, (1, 1)) is 1/√2 from its nearest point (½, (½, 1))."""
    optimum = lls("paper").optimum
    assert optimum is not None
    assert optimum.distance(Pair((tensor(-7.0),), (tensor(-7.0, 1.0),))) == 0
    assert optimum.distance(Pair((tensor(0.0),), (tensor(1.0, 1.0),))) == pytest.approx(math.sqrt(0.5), rel=1e-14)


def test_solve_inner_keeps_the_second_coordinate_which_the_inner_problem_leaves_free() -> None:
    solve_inner = lls().solve_inner
    assert solve_inner is not None
    assert solve_inner((tensor(2.0),), (tensor(3.0, 5.0),))[0].tolist() == [2.0, 5.0]


def test_only_theta_is_bounded() -> None:
    problem = lls().problem
    assert not problem.project_v
    assert problem.project_theta((tensor(101.0, -101.0),))[0].tolist() == [100.0, -100.0]
