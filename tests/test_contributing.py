"""CONTRIBUTING.md is true: what it says is done to the letter in a copy of the repository, and works there.

A block of code whose first line is `# PATH` is that file; a block of `diff` says what is added where.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
COPIED = ("bome", "bome_studies", "bome_command.py", "tests", "docs", "pyproject.toml")


class Block(NamedTuple):
    """A block of code of the page."""

    language: str
    path: str
    text: str


def blocks() -> list[Block]:
    """All blocks that name a file, in their order."""
    return [Block(*each) for each in re.findall(r"```(\w+)\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def follow(block: Block, root: Path) -> None:
    """Do what a block says."""
    path = root / block.path
    if block.language != "diff":
        assert not path.exists(), f"{block.path} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    lines = block.text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    after = "".join(line[1:] for line in lines if not line.startswith("-"))
    text = path.read_text()
    assert before in text, f"{block.path} has no lines\n{before}"
    path.write_text(text.replace(before, after, 1))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with all that the page adds."""
    root = tmp_path_factory.mktemp("contributing")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(ROOT / name, root / name)
    for block in blocks():
        follow(block, root)
    return root


def run(root: Path, *words: str) -> str:
    """What a Python process prints that imports the copy."""
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bome(root: Path, *words: str) -> str:
    return run(root, "-c", "from bome_command import main; main()", *words)


def test_the_method_and_the_task_are_listed(copy: Path) -> None:
    assert "direct" in bome(copy, "ls", "methods")
    assert "parabola" in bome(copy, "ls", "tasks")


def test_the_task_is_solved_by_methods_with_a_hypergradient_and_not_by_the_baseline(copy: Path) -> None:
    """f_v = v leads the baseline to v = 0, 1/√2 from (½, ½)."""
    for method, ends in (("bome", "½"), ("direct", "0")):
        bome(copy, "run", "parabola", "--method", method, "--out", f"runs/{method}", "--quiet")
        summary = (copy / "runs" / method / "summary.json").read_text()
        found = re.search(r'"distance_to_optimum": ([\d.e-]+)', summary)
        assert found is not None
        assert (float(found[1]) < 0.1) == (ends == "½")


def test_the_study_is_run_and_its_claim_holds(copy: Path) -> None:
    bome(copy, "reproduce", "constants", "--out", "runs/constants", "--quiet")
    assert '"holds": true' in (copy / "runs" / "constants" / "findings.json").read_text()
    assert "how fast the gap must shrink" in (copy / "runs" / "constants" / "report.html").read_text()
    assert "constants" in bome(copy, "reproduce", "--help")


def test_the_verb_writes_a_folder_that_report_and_resume_know(copy: Path) -> None:
    words = ("compare", "parabola", "--method", "bome", "--method", "direct", "--out", "runs/compare")
    assert "report: runs/compare/report.html" in bome(copy, *words)
    page = (copy / "runs" / "compare" / "report.html").read_text()
    for verb in ("report", "resume"):
        (copy / "runs" / "compare" / "report.html").unlink()
        bome(copy, verb, "runs/compare")
        assert (copy / "runs" / "compare" / "report.html").read_text() == page
    (copy / "runs" / "compare" / "summary.json").unlink()  # as if it had been stopped before the end
    assert "report: runs/compare/report.html" in bome(copy, "resume", "runs/compare")


def test_what_is_added_passes_its_tests_and_the_batteries(copy: Path) -> None:
    added = [block.path for block in blocks() if block.language == "python" and block.path.startswith("tests/")]
    pytest_ = ("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
    run(copy, *pytest_, *added, "tests/bome_studies/test_cli.py::test_every_study_has_the_name_it_is_asked_for_by")
    run(copy, *pytest_, "tests/contracts", "-k", "direct or parabola or page")


def test_what_is_added_keeps_the_rules_of_the_house(copy: Path) -> None:
    paths = sorted({block.path for block in blocks() if block.path.endswith(".py")})
    run(copy, "-m", "ruff", "check", "--quiet", *paths)
    run(copy, "-m", "ruff", "format", "--check", "--quiet", *paths)
    run(copy, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/test_arrows.py", "tests/test_house.py")
