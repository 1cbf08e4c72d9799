"""The README is true: its example runs as printed, its commands and links exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from bome.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def without_numbers(text: str) -> tuple[str, list[float]]:
    number = r"\d+\.?\d*"
    return re.sub(number, "#", text), [float(x) for x in re.findall(number, text)]


def test_the_example_runs_as_printed_and_prints_what_it_says() -> None:
    (code,), (expected,) = blocks("python"), blocks("text")
    assert len(code.strip().split("\n")) <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own text
    words, numbers = without_numbers(printed.getvalue())
    assert words == without_numbers(expected)[0]
    assert numbers == pytest.approx(without_numbers(expected)[1], abs=0.02)  # processors round differently


def test_the_commands_exist() -> None:
    verbs = set(main.verbs())
    named = [line.split()[1] for block in blocks("sh") for line in block.split("\n") if line.startswith("bome ")]
    assert named
    assert set(named) <= verbs
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    documents = README + (ROOT / "CONTRIBUTING.md").read_text()
    wanted = re.findall(r"^make ([\w-]+)", documents, flags=re.MULTILINE)
    assert {"demo", "test", "check"} <= set(wanted) <= set(targets)


def test_the_links_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
            assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_files_named_for_contributors_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in re.findall(r"`(bome/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_paper_is_cited_with_its_authors_in_order() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"family-names: (\w+)", citation) == ["Ye", "Liu", "Wright", "Stone", "Liu"]
    assert "BOME! Bilevel Optimization Made Easy: A Simple First-Order Approach" in citation
