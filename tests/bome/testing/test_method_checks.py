"""The checks of what a method is; and the battery as a whole."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from bome import GradientDescent, testing
from bome.methods.base import Method
from bome.testing import behaviour_checks, method_checks, step_checks
from tests.support.plain import Plain, fails


def test_a_simple_method_passes_as_an_instance_as_a_class_and_as_a_function() -> None:
    testing.check_method(Plain(GradientDescent(0.05, 2)))
    quick = step_checks.check_info_is_scalars_without_graph
    testing.run_check(quick, Plain)
    testing.run_check(quick, lambda settings: Plain(GradientDescent(settings.inner_lr, 1)))


class Thawed(Plain):
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Shouts(Plain):
    name: ClassVar[str] = "PLAIN METHOD"


@dataclass(frozen=True)
class AcceptsAnything(Plain):
    rate: float = 1.0


BROKEN: list[tuple[type[Method], str]] = [
    (Thawed, "check_is_a_frozen_record"),
    (Shouts, "check_declares_itself"),
    (AcceptsAnything, "check_refuses_nonsense"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_a_broken_method_fails_the_check_that_is_there_for_it(broken: type[Method], name: str) -> None:
    fails(broken, name)


def test_check_method_stops_at_the_first_failure_and_names_it() -> None:
    with pytest.raises(AssertionError, match="PLAIN METHOD fails check_declares_itself"):
        testing.check_method(Shouts)


def test_the_battery_has_every_check_of_its_files_and_each_has_a_docstring() -> None:
    assert len(testing.METHOD_CHECKS) >= 25
    assert all(check.__doc__ for check in testing.METHOD_CHECKS)
    files = (method_checks, step_checks, behaviour_checks)
    defined = {name for file in files for name in vars(file) if name.startswith("check_")} - {"check_method"}
    assert sorted(check.__name__ for check in testing.METHOD_CHECKS) == sorted(defined)
