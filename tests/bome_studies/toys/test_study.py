"""The page of the toy study; `tests/bome_studies/test_cli.py` makes all of it."""

from bome_studies.notes import paragraph, points
from bome_studies.toys import study
from bome_studies.toys.claims import NEAR


def test_the_notes_tell_the_limits_that_claims_are_judged_by() -> None:
    (limits,) = [note for note in points(study.__file__, "notes") if "reaches the optimum" in note]
    assert all(f"{limit:g}" in limits for limit in NEAR.values())


def test_every_section_has_its_text() -> None:
    for title in ("about", "coreset", "minimax", "lls", "coefficients"):
        assert paragraph(study.__file__, title)
