"""Learned penalties: their reference models and what is claimed; `test_study.py` runs the smoke preset."""

from dataclasses import replace

from bome_studies.learning.newsgroups import LINES, PROTOCOLS, _claims, references
from tests.support.comparisons import comparison


def test_the_reference_models_are_the_lines_of_the_figures() -> None:
    numbers = references("regularization-digits", 0, "smoke")
    assert set(numbers) == set(LINES)
    assert all(one["test_accuracy"] > 50 for one in numbers.values())  # chance is 10


def test_aims_of_the_posts_are_not_claimed_of_another_task() -> None:
    lines = {name: [{"test_accuracy": 80.0}] for name in LINES}
    told = replace(comparison(), references=lines)
    few, all_of_them = (len(list(_claims(one))) for one in (told, replace(told, task="regularization-20news")))
    assert all_of_them == few + 2 + len(told.extra)


def test_the_paper_preset_searches_the_grid_of_the_authors_and_beyond() -> None:
    assert set(PROTOCOLS["paper"].outer_lrs) > {0.5, 5.0, 50.0}
    assert PROTOCOLS["paper"].seeds == (5, 5)
