"""The saddle problem: its losses, and its bounds."""

from functools import partial

import pytest

from bome.tasks import minimax
from bome.testing import check_task
from tests.support.toys import VARIANTS, loss, tensor


@pytest.mark.parametrize("variant", VARIANTS["minimax"])
def test_every_variant_passes_the_battery(variant: str) -> None:
    check_task(partial(minimax, variant=variant))


def test_losses_have_the_values_computed_by_hand() -> None:
    assert loss(minimax(), "f", tensor(4.0), tensor(4.0)) == 16.0
    assert loss(minimax(), "g", tensor(4.0), tensor(4.0)) == -16.0


def test_solve_inner_keeps_theta_where_v_is_zero() -> None:
    solve_inner = minimax().solve_inner
    assert solve_inner is not None
    assert float(solve_inner((tensor(0.0),), (tensor(3.0),))[0]) == 3.0
    assert float(solve_inner((tensor(-0.1),), (tensor(3.0),))[0]) == -10.0


def test_the_code_is_bounded_and_the_paper_is_not() -> None:
    (project_v,), (project_theta,) = minimax().problem.project_v.each, minimax().problem.project_theta.each
    assert project_v is not None
    assert project_theta is not None
    assert (float(project_v(tensor(11.0))), float(project_theta(tensor(-11.0)))) == (10.0, -10.0)
    assert not minimax("paper").problem.project_v
    assert minimax("paper").solve_inner is None
