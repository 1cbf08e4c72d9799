"""Hyper-cleaning: its reference models and what it claims; `test_study.py` runs the smoke preset."""

from bome_studies.learning import study
from bome_studies.learning.hyperclean import FURTHER, HYPERCLEAN, LINES, PROTOCOLS, _claims, references
from bome_studies.notes import points
from tests.support.comparisons import comparison


def test_the_reference_models_have_the_lines_of_the_figures() -> None:
    numbers = references("hyperclean-digits", 0, "smoke")
    assert set(LINES) < set(numbers)
    assert numbers["clean"]["test_accuracy"] > numbers["noisy"]["test_accuracy"]
    assert {"f1", "val2_loss"} & set(numbers["noisy"])


def test_every_claim_of_any_task_is_made() -> None:
    texts = [claim.text for claim in _claims(comparison())]
    assert len(texts) == len(set(texts)) + 1  # first or level, as selected and as tuned
    assert any("validation samples only" in text for text in texts)


def test_the_paper_preset_has_longer_budgets_and_more_choices() -> None:
    quick, paper = PROTOCOLS["quick"], PROTOCOLS["paper"]
    assert paper.budget > quick.budget
    assert set(quick.inner_steps) < set(paper.inner_steps)
    assert [*paper.extra] == [*FURTHER]
    assert paper.extra["slower"]["steps"] == 2 * paper.extra["tuned"]["steps"]


def test_the_notes_tell_the_further_settings() -> None:
    (note, *_) = points(study.__file__, "notes hyperclean", **HYPERCLEAN.words)
    assert "“slower”: inner_steps = 1" in note
