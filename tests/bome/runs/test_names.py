"""Names of methods and tasks: built in, of plug-ins, registered."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from bome.errors import ProblemError
from bome.methods import PBGD, Method
from bome.runs import names
from bome.runs.names import METHODS, TASKS, plugins, register
from bome.tasks import Task, lls

HERE = __name__


class Further(PBGD):
    """A method of another package."""


def further(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
    """A task of another package."""
    return lls(variant, start, seed=seed)


NOT_A_TASK = 3


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretends that a package is installed which has these entry points."""
    entries: list[EntryPoint] = []

    def add(group: str, **things: str) -> None:
        for name, value in things.items():
            entry = EntryPoint(name, f"{HERE}:{value}" if ":" not in value else value, group)
            vars(entry)["dist"] = SimpleNamespace(name="bome-further")
            entries.append(entry)

    monkeypatch.setattr(names, "entry_points", lambda group: [entry for entry in entries if entry.group == group])
    for known in (METHODS, TASKS):
        monkeypatch.setattr(known, "registered", {})
        monkeypatch.setattr(known, "_plugged", None)
    return add


def test_a_plug_in_is_listed_after_what_is_built_in(offer: Callable[..., None]) -> None:
    offer("bome.methods", further="Further")
    offer("bome.tasks", further="further")
    assert METHODS["further"] is Further
    assert TASKS["further"] is further
    assert next(iter(METHODS)) == "bome"
    assert [*METHODS][-1] == [*TASKS][-1] == "further"
    assert len(METHODS) == len([*METHODS])


def test_no_plug_in_is_imported_for_a_built_in_name(
    offer: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("bome.methods", further="no.such.module:Further")
    assert METHODS["pbgd"] is PBGD  # a warning would be an error


def test_a_plug_in_that_cannot_be_imported_is_one_warning_that_names_its_package(offer: Callable[..., None]) -> None:
    offer("bome.methods", broken="no.such.module:Broken", further="Further")
    with pytest.warns(UserWarning, match=r"^'broken' of the package bome-further is left out: ModuleNotFound") as told:
        listed = list(METHODS)
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    assert "broken" not in listed
    assert "further" in listed
    assert list(METHODS) == listed  # and no second warning


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        ({"bome": "Further"}, "the name 'bome' is taken"),
        ({"three": "NOT_A_TASK"}, "3 cannot be one of bome.methods"),
    ],
)
def test_a_plug_in_that_does_not_fit_is_left_out(
    offered: dict[str, str], reason: str, offer: Callable[..., None]
) -> None:
    offer("bome.methods", **offered)
    with pytest.warns(UserWarning, match=reason):
        assert set(METHODS.values()) == set(METHODS._built_in.values())


def test_of_two_packages_with_one_name_the_first_counts(offer: Callable[..., None]) -> None:
    offer("bome.verbs", greet="further")
    offer("bome.verbs", greet="Further")
    with pytest.warns(UserWarning, match="'greet' of the package bome-further is left out: the name 'greet' is taken"):
        assert plugins("bome.verbs") == {"greet": further}


def test_what_a_notebook_registers_is_found_and_can_be_defined_again(offer: Callable[..., None]) -> None:
    register("mine", Further)
    register("mine", further)  # a task may have the name of a method
    assert (METHODS["mine"], TASKS["mine"]) == (Further, further)
    again = type("Further", (PBGD,), {"__module__": HERE})
    register("mine", again)
    assert METHODS["mine"] is again
    assert names.registered() == [("mine", again), ("mine", further)]


@pytest.mark.parametrize(
    ("name", "thing", "message"),
    [
        ("bome", Further, "the name 'bome' is taken: choose another one"),
        ("lls", further, "the name 'lls' is taken"),
        ("Mine", Further, "a name has small letters, digits, + and - only and starts with a letter, got 'Mine'"),
        (3, Further, "got 3"),
        ("mine", 3, "only a subclass of Method or a function that returns a Task has a name, got 3"),
        ("mine", Task, "only a subclass of Method"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_one_line(
    name: Any, thing: Any, message: str, offer: Callable[..., None]
) -> None:
    with pytest.raises(ProblemError, match=message.replace("+", r"\+")):
        register(name, thing)


def test_all_built_in_methods_are_methods_with_a_name_of_their_own() -> None:
    assert all(issubclass(kind, Method) for kind in METHODS.values())
    assert len(set(METHODS.values())) == len(METHODS)
