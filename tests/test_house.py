"""The rooms: how large they may be, what their files are called, and that each has its tests."""

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("bome", "bome_studies")
FILES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MOST_MODULES, MOST_LINES = 16, 400
METHODS = Path("bome/methods")
"""One file per method, however many there are and however much is to be said of them."""

FIXED = {"study", "protocol", "trials", "claims", "figures"}
"""The files of a study have the same names in every study."""

UNTESTED: dict[str, str] = {
    "bome/_typing.py": "names of types, which mypy checks",
    "bome/_version.py": "a number",
    "bome_studies/matrix/cells.py": "tests/distributed/test_matrix.py tries every cell",
    "bome_studies/matrix/launch.py": "tests/distributed/test_matrix.py launches by it",
    "bome_studies/matrix/measures.py": "tests/distributed/test_matrix.py checks what it measures",
    "bome_studies/matrix/models.py": "tests/distributed/test_matrix.py trains them",
    "bome_studies/matrix/worker.py": "tests/distributed/test_matrix.py starts it in processes",
}
"""Modules without a test file of their name, and why."""


@pytest.mark.parametrize("room", sorted({path.parent for path in FILES} - {METHODS}), ids=str)
def test_a_room_has_few_modules(room: Path) -> None:
    modules = [path.stem for path in FILES if path.parent == room and path.stem not in ("__init__", "base")]
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize("path", [path for path in FILES if METHODS not in path.parents], ids=str)
def test_a_module_is_short(path: Path) -> None:
    assert len((ROOT / path).read_text().splitlines()) <= MOST_LINES


def test_no_name_stands_for_three_things() -> None:
    names = Counter(path.stem for path in FILES if path.stem != "__init__")
    assert {name: count for name, count in names.items() if count > 2 and name not in FIXED} == {}


def test_every_module_has_a_test_file_of_its_name() -> None:
    """Beside its tests of other names; in the folder of its room."""
    missing = [
        path.as_posix()
        for path in FILES
        if path.stem != "__init__" and not (ROOT / "tests" / path.parent / f"test_{path.stem}.py").exists()
    ]
    assert set(missing) == set(UNTESTED)


def test_every_room_says_what_it_is_for() -> None:
    """In the first line of its `__init__`."""
    for room in {path.parent for path in FILES}:
        assert (ROOT / room / "__init__.py").read_text().startswith('"""'), room
