"""What the study of the applications runs."""

from bome_studies.applications.contenders import names
from bome_studies.applications.problems import APPLICATIONS
from bome_studies.applications.protocol import FACTORS, PROTOCOLS, TUNING_SEED


def test_presets_name_what_there_is() -> None:
    for protocol in PROTOCOLS.values():
        assert set(protocol.applications) <= set(APPLICATIONS)
        assert {*protocol.contenders, *protocol.tuned} <= set(names())
        assert protocol.seeds <= TUNING_SEED
    assert PROTOCOLS["paper"].seeds == 5
    assert PROTOCOLS["smoke"].pool == "digits"
    assert 1.0 in FACTORS  # the untuned settings are among those that are chosen from
