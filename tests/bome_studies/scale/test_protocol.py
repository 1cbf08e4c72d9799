"""What the study of scale measures in each preset."""

from bome_studies.scale.protocol import PROTOCOLS


def test_the_presets_reach_the_sizes_that_the_aims_speak_of() -> None:
    for preset in ("quick", "paper"):
        protocol = PROTOCOLS[preset]
        assert max(protocol.parameters) >= 10**7
        assert len(protocol.ranks) > 1
        assert protocol.samples[0] < protocol.samples[-1]
    assert PROTOCOLS["paper"].repeats > PROTOCOLS["quick"].repeats
    assert max(PROTOCOLS["smoke"].parameters) <= 10_000
