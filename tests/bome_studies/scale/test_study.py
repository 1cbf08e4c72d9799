"""The page of the study of scale; `tests/bome_studies/test_cli.py` runs it."""

from bome_studies.scale.study import _projection


def test_the_projection_is_told_in_numbers() -> None:
    memory, messages = _projection()
    assert "Plain training holds 14.0 GB on each GPU, BOME 17.5 GB" in memory
    assert "its T + 2 evaluations: 257 GB" in messages
    assert "{" not in memory + messages
