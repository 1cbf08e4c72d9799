"""Which runs the toy study has, and their settings."""

from pathlib import Path

import pytest

from bome.inner import GradientDescent
from bome.methods import BOME, BSG1, BVFSM, Penalty
from bome.tasks import coreset
from bome_studies.toys.protocol import COMPARED, GRID, trials
from bome_studies.toys.trials import make_method


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper"])
def test_trials_have_different_names_that_can_be_files(preset: str) -> None:
    names = [trial.name for trial in trials(preset)]  # type: ignore[arg-type]
    assert len(set(names)) == len(names)
    assert all(Path(name).name == name for name in names)


def test_the_paper_preset_has_the_full_protocol() -> None:
    made = {trial.name: trial for trial in trials("paper")}
    assert all(trial.steps == 5000 for name, trial in made.items() if name.startswith("coreset"))
    assert all(made[f"coreset-code-{m}-published"].starts == ("a", "b", "c") for m in COMPARED)
    assert sum(name.startswith("grid-coreset-penalty") for name in made) == len(GRID) ** 3
    assert made["coreset-code-T1"].inner_lr == 0.1  # the authors' α there


def test_published_forms_have_the_settings_of_the_authors() -> None:
    made = {
        trial.name: make_method(trial, coreset()) for trial in trials("quick") if trial.name.startswith("coreset-code")
    }
    inner = GradientDescent(0.05, 10)
    assert made["coreset-code-bome-published"] == BOME(inner, eps=1e-4, counts="all")
    assert made["coreset-code-bsg1-published"] == BSG1(inner, eps=1e-50)
    assert made["coreset-code-penalty-published"] == Penalty(inner, 0.1, 0.01, 0.01, 1e-4, "mean")
    assert made["coreset-code-bvfsm-published"] == BVFSM(
        inner, c_z=0.1, c_ln=0.1, schedule="constant", weight="published", steps=5000
    )
    assert made["coreset-code-bome-default"] == BOME(inner, counts="all")
