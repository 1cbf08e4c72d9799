"""`bome ls`."""

import re
from collections.abc import Iterable

import pytest
from rich.cells import cell_len

from bome.cli.docstrings import section
from bome.cli.ls import Kind
from bome.cli.main import execute
from bome.continual.settings import STRATEGIES
from bome.continual.streams import STREAMS
from bome.data.sets import available
from bome.runs.names import METHODS, TASKS
from bome.tasks.bolib import RECORDS
from bome.tasks.task import Settings, Task


def test_ls_fits_one_screen_and_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ls"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert len(lines) < 24  # the prompt needs one
    assert all(cell_len(line) <= 80 for line in lines)
    words = set(re.findall(r"[\w+-]+", printed))
    assert words >= {
        *METHODS,
        *(set(TASKS) - set(RECORDS)),
        "bolib-NAME",
        *STRATEGIES,
        *STREAMS,
        *section(Settings, "Attributes"),
    }
    assert words >= {each.name for each in available()}
    assert lines[-1] == "What they are: bome ls methods|tasks|bolib|strategies|settings|data"


@pytest.mark.parametrize("kind", Kind)
def test_each_part_is_explained_in_80_columns(capsys: pytest.CaptureFixture[str], kind: Kind) -> None:
    assert execute(["ls", kind]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines())
    words: dict[Kind, Iterable[str]] = {
        Kind.methods: ["published", *METHODS],
        Kind.tasks: ["isotropic", "bolib-NAME", *(set(TASKS) - set(RECORDS))],
        Kind.bolib: RECORDS,
        Kind.strategies: ["gamma_reptile", *STRATEGIES, *STREAMS],
        Kind.settings: ["inner_momentum", *section(Settings, "Attributes")],
        Kind.data: ["mnist", "MB"],
    }
    assert all(word in printed for word in words[kind])


def test_methods_and_tasks_of_others_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
        """Cannot be built."""
        raise ZeroDivisionError

    monkeypatch.setitem(METHODS.registered, "their-method", METHODS["bome"])
    monkeypatch.setitem(TASKS.registered, "their-task", broken)
    for kind in ([], ["methods"], ["tasks"], ["settings"]):
        assert execute(["ls", *kind]) == 0
        assert "their-" in capsys.readouterr().out


def test_every_setting_is_explained() -> None:
    meaning = section(Settings, "Attributes")
    assert all(meaning[name] for name in Settings.__dataclass_fields__)


def test_listed_defaults_are_those_of_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert execute(["ls", "settings"]) == 0
    printed = capsys.readouterr().out
    shown = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(" hyperclean-")}
    assert shown["hyperclean-mnist"] == shown["hyperclean-fashion"] == shown["hyperclean-digits"]
    assert "phi=gap," in shown["hyperclean-mnist"]
    assert re.search(r"bvfsm +c_z=0.01, c_ln=1 ", printed)
