"""The parts of a study."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bome_studies.parts import PARTS, results_of


@dataclass(frozen=True)
class Number:
    name: str
    value: int
    calls: tuple[int, ...] = ()


@dataclass(frozen=True)
class Squared:
    square: int
    table: object


DONE: list[int] = []


def squared(part: Number) -> Squared:
    DONE.append(part.value)
    return Squared(part.value**2, np.array([float(part.value), np.nan]))


def restored(stored: dict[str, object]) -> Squared:
    return Squared(**stored)  # type: ignore[arg-type]


def test_the_work_on_each_part_is_done_once_and_changed_parts_again(tmp_path: Path) -> None:
    DONE.clear()
    told: list[tuple[str, int, int]] = []

    def run(*parts: Number) -> dict[str, Squared]:
        return results_of(parts, squared, tmp_path, lambda *what: told.append(what), restore=restored)

    first = run(Number("a", 2), Number("in/b", 3))
    assert {name: result.square for name, result in first.items()} == {"a": 4, "in/b": 9}
    assert told == [("a", 1, 2), ("in/b", 2, 2)]
    assert (tmp_path / PARTS / "in" / "b.json").exists()
    again = run(Number("in/b", 3), Number("a", 5), Number("c", 1))
    assert {name: result.square for name, result in again.items()} == {"in/b": 9, "a": 25, "c": 1}
    assert [*again] == ["in/b", "a", "c"]
    np.testing.assert_array_equal(again["in/b"].table, [3.0, np.nan])
    assert DONE == [2, 3, 5, 1]
    assert told[2] == ("already finished", 1, 3)
