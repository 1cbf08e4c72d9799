"""The example of a plug-in, installed as a user would install it: all that it adds is there and works."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "plugin"
COMMAND = "from bome_command import main; main()"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process that sees the installed plug-in; nothing is downloaded, and the sources stay clean."""
    base = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, base / "sources", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    target = ["--no-deps", "--no-build-isolation", "--target", str(base / "site"), str(base / "sources")]
    done = subprocess.run([*pip, *target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(base / "site"), str(ROOT)]), "COLUMNS": "160"}


def bome(environment: dict[str, str], folder: Path, *words: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" or "--quiet" not in words, done.stderr
    return done.stdout


def test_its_method_and_its_task_are_listed(environment: dict[str, str], tmp_path: Path) -> None:
    methods = bome(environment, tmp_path, "ls", "methods")
    assert "capped" in methods
    assert "BOME with a largest multiplier" in methods
    tasks = bome(environment, tmp_path, "ls", "tasks")
    assert "rooms" in tasks
    assert "Heating three rooms" in tasks


def test_its_task_is_run_by_its_method_and_reported(environment: dict[str, str], tmp_path: Path) -> None:
    words = ("run", "rooms", "--method", "capped:loose", "--set", "steps=300", "--out", "run", "--quiet")
    assert bome(environment, tmp_path, *words) == ""
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["observed"]["power"] > 0
    page = tmp_path / "run" / "report.html"
    page.unlink()
    bome(environment, tmp_path, "report", "run")
    assert "capped:loose" in page.read_text()


def test_a_sweep_over_its_setting_prefers_the_larger_multiplier(environment: dict[str, str], tmp_path: Path) -> None:
    words = ("sweep", "rooms", "--method", "capped", "--grid", "cap=1,10", "--set", "steps=1000", "--out", "sweep")
    assert "chosen by distance_to_optimum: cap=10" in bome(environment, tmp_path, *words)


def test_its_verb_is_in_the_help_and_its_page_is_made_again(environment: dict[str, str], tmp_path: Path) -> None:
    assert "Heat the rooms at every price" in bome(environment, tmp_path, "--help")
    assert "report:" in bome(environment, tmp_path, "prices", "--steps", "100", "--out", "prices")
    page = tmp_path / "prices" / "report.html"
    first = page.read_text()
    assert "dear" in first
    page.unlink()
    bome(environment, tmp_path, "report", "prices")
    assert page.read_text() == first


def test_the_contract_tests_check_its_method_and_its_task_too(environment: dict[str, str]) -> None:
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
    contracts = [*pytest_, "tests/contracts", "-k", "capped or rooms"]
    done = subprocess.run(contracts, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    from bome.testing import METHOD_CHECKS, TASK_CHECKS

    assert f"{len(METHOD_CHECKS) + len(TASK_CHECKS)} passed" in done.stdout


def test_its_own_tests_pass(environment: dict[str, str]) -> None:
    """Those of the task; of the method the contract tests have just run the same."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "task", "-c", "pyproject.toml"]
    done = subprocess.run([*words, "tests"], cwd=PLUGIN, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
