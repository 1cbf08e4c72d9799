"""What the study of continual learning runs."""

from bome_studies.continual.protocol import PROTOCOLS


def test_settings_near_to_the_papers_rows_are_tried_on_the_stream_they_were_found_on() -> None:
    pmnist, cifar = PROTOCOLS["paper"]
    assert {c.strategy for c in pmnist.candidates if c.variant == "nearer"} == {"mer", "ctn+bvfsm", "ctn+penalty"}
    assert not [c for c in (*cifar.candidates, *PROTOCOLS["quick"][0].candidates) if c.variant == "nearer"]
    assert pmnist.candidate("ctn+penalty").variant == "selected"
