"""What the tests of several verbs share."""

import shutil
from pathlib import Path

import pytest

from bome.cli.main import execute
from tests.support.tables import CLEAN, noisy


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished cleaning; its files are never changed in place."""
    place = tmp_path_factory.mktemp("cleaned")
    for name, n, share, seed in (("train", 200, 0.3, 0), ("trusted", 40, 0, 1), ("test", 100, 0, 2)):
        noisy(n, share, seed)[0].to_csv(place / f"{name}.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert execute([*CLEAN, "--quiet"]) == 0
    return place


@pytest.fixture
def copy(cleaned: Path, place: Path) -> Path:
    """A copy of the finished cleaning, as the working directory."""
    shutil.copytree(cleaned, place, dirs_exist_ok=True)
    return place
