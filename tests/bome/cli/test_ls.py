"""`bome ls`."""

import re

import pytest
from rich.cells import cell_len

from bome.cli.docstrings import section
from bome.cli.main import execute
from bome.runs.names import METHODS, TASKS
from bome.tasks.task import Settings


def test_ls_shows_everything_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ls"]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines())
    assert all(name in printed for name in (*METHODS, *TASKS, *section(Settings, "Attributes")))
    for kind, name in (("methods", "published"), ("tasks", "isotropic"), ("settings", "inner_momentum")):
        assert execute(["ls", kind]) == 0
        assert name in capsys.readouterr().out


def test_every_setting_is_explained() -> None:
    told = section(Settings, "Attributes")
    assert all(told[name] for name in Settings.__dataclass_fields__)


def test_listed_defaults_are_those_of_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert execute(["ls", "settings"]) == 0
    printed = capsys.readouterr().out
    shown = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(" hyperclean-")}
    assert shown["hyperclean-mnist"] == shown["hyperclean-fashion"] == shown["hyperclean-digits"]
    assert "phi=gap," in shown["hyperclean-mnist"]
    assert re.search(r"bvfsm +c_z=0.01, c_ln=1 ", printed)
