"""Tasks made of records, and the optima of the records against brute force."""

import pytest
import torch

from bome import testing
from bome.tasks import TASKS
from bome.tasks.bolib import RECORDS, name_of, problem_of
from bome.tasks.bolib.record import Record, point
from tests.support.bolib import lowest_by_search, lowest_on_a_grid

ALL = [pytest.param(record, id=record.name) for record in RECORDS.values()]
NO_TABLE = (
    "MacalHurter1997",  # too steep
    "HendersonQuandt1958",  # y has no upper bound
    "Colson2002BIPA1",  # a single point is feasible
    "MitsosBarton2006Ex38",  # a single x has an answer
)
NUMBERS = [
    pytest.param(record, id=record.name)
    for record in RECORDS.values()
    if (len(record.start[0]), len(record.start[1])) == (1, 1) and record.name not in NO_TABLE
]
"""Those of which a table of all values can be made."""


WITH_BOME = ("check_settings_are_valid", "check_two_steps_can_be_made")
"""Checks that take steps of BOME, which has no constraints."""


BACK_AND_FORTH = "MitsosBarton2006Ex310"
"""Of which ten inner steps go from one end of the interval to the other and back, so that two steps change nothing."""


@pytest.mark.parametrize("record", ALL)
def test_every_task_passes_the_battery(record: Record) -> None:
    for check in testing.TASK_CHECKS:
        if not ((record.constrained or record.name == BACK_AND_FORTH) and check.__name__ in WITH_BOME):
            check(TASKS[name_of(record)])


@pytest.mark.parametrize("record", ALL)
def test_the_problem_has_the_losses_and_constraints_of_the_record(record: Record) -> None:
    problem = problem_of(record)
    x, y = (point(z) + 0.25 for z in record.start)
    assert float(problem.outer(x, y, None)) == float(record.f(x, y))
    assert float(problem.inner(x, y, None)) == float(record.g(x, y))
    assert bool(problem.constraints) == record.constrained


@pytest.mark.parametrize("record", NUMBERS)
def test_the_optimum_is_that_of_a_table_of_all_values(record: Record) -> None:
    assert lowest_on_a_grid(record) == pytest.approx(record.optimum, abs=0.01 * max(1, abs(record.optimum)))


@pytest.mark.slow
@pytest.mark.parametrize("record", ALL)
def test_brute_force_finds_no_lower_value(record: Record) -> None:
    found, scale = lowest_by_search(record), max(1, abs(record.optimum))
    assert found >= record.optimum - 2e-4 * scale
    if len(record.start[0]) <= 2:
        assert found <= record.optimum + 0.01 * scale


def test_sets_are_projections() -> None:
    task = TASKS["bolib-dempefranke2014ex38"]()
    assert task.problem.project_v((point((2, 3)),))[0].tolist() == [1, -0.75]
    torch.testing.assert_close(task.problem.project_theta((point((-1, 5)),))[0], point((1, 2)))


def test_the_distance_is_to_the_recorded_solution() -> None:
    task = TASKS["bolib-falkliu1995"]()
    assert task.optimum is not None
    assert task.optimum.f == -2.25
    assert task.optimum.distance(task.problem.point) == pytest.approx((2 * 0.75**2 + 2 * 0.25**2) ** 0.5)
    assert "v = (0.75, 0.75)" in task.optimum.text


def test_names_are_those_of_the_library_in_small_letters() -> None:
    assert name_of(RECORDS["bolib-falkliu1995"]) == "bolib-falkliu1995"
    assert len(RECORDS) == 155
