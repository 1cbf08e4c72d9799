"""One battery over every task of the registry, those of other packages too.

The problems of BOLIB, which are many, pass it in `tests/bome/tasks/bolib`.
"""

import os

import pytest

from bome import testing
from bome.runs.names import TASKS
from bome.tasks import ON_DATA
from bome.tasks.bolib import RECORDS


def _param(name: str) -> object:
    if name not in ON_DATA:
        return name
    away = pytest.mark.skipif("BOME_DATA" not in os.environ, reason="BOME_DATA is not set: the data is not at hand")
    return pytest.param(name, marks=(pytest.mark.slow, away))


@pytest.mark.parametrize("check", testing.TASK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [_param(name) for name in TASKS if name not in RECORDS])
def test_every_task_passes_every_check(name: str, check: testing.TaskCheck) -> None:
    check(TASKS[name])
