"""The batteries of `bome.testing` over the method and the task."""

from functools import partial

import pytest

from bome.testing import METHOD_CHECKS, MethodCheck, check_task, run_check
from bome_rooms.method import Capped
from bome_rooms.task import PRICES, rooms


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_the_method_passes_every_check(check: MethodCheck) -> None:
    run_check(check, Capped)


@pytest.mark.parametrize("variant", PRICES)
def test_the_task_passes_every_check(variant: str) -> None:
    check_task(partial(rooms, variant=variant))
