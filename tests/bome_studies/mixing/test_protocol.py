"""What the mixing study runs in each preset."""

from bome_studies.mixing.protocol import FEW, PROTOCOLS


def test_the_target_is_one_of_the_sources() -> None:
    assert PROTOCOLS["quick"].target in PROTOCOLS["quick"].groups == FEW
    assert PROTOCOLS["paper"].groups == ()  # all of them
    assert PROTOCOLS["paper"].seeds > PROTOCOLS["quick"].seeds > PROTOCOLS["smoke"].seeds
