"""The sweeps of each preset."""

from typing import get_args

import pytest

from bome_studies.study import Preset
from bome_studies.theory.protocol import sweeps


@pytest.mark.parametrize("preset", get_args(Preset))
def test_sweeps_have_different_names_and_all_that_the_topics_want(preset: Preset) -> None:
    planned = {sweep.name: sweep for sweep in sweeps(preset)}
    assert len(planned) == len(sweeps(preset))
    assert {"floors", "basins", "ridge", "decreasing"} <= set(planned)
    assert {"rate", "quarter", "third"} == {setting.use for setting in planned["floors"].settings}
    assert planned["ridge"].inner_steps == 2 * planned["basins"].inner_steps
    assert all(sweep.compiled == (preset != "smoke") for sweep in planned.values())


def test_the_schedules_are_those_of_the_paper() -> None:
    for setting in sweeps("paper")[0].settings:
        if setting.use == "quarter":
            assert (setting.rate, setting.gap) == (setting.steps**-0.5, 1.0)
        if setting.use == "third":
            assert setting.gap * setting.rate * setting.steps == pytest.approx(1)
