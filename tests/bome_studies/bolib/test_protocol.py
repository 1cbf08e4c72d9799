"""What the study of BOLIB runs."""

from bome.tasks.bolib import RECORDS
from bome_studies.bolib.contenders import contenders
from bome_studies.bolib.protocol import PROTOCOLS, SEEN


def test_presets_name_what_there_is_and_budgets_rise() -> None:
    for protocol in PROTOCOLS.values():
        assert set(protocol.problems) <= set(RECORDS)
        assert set(protocol.contenders) <= set(contenders())
        assert list(protocol.budgets) == sorted(protocol.budgets)
    assert PROTOCOLS["quick"].further == (5000,)
    assert PROTOCOLS["smoke"].seeds <= PROTOCOLS["quick"].seeds < PROTOCOLS["paper"].seeds


def test_those_that_solve_was_designed_on_are_problems() -> None:
    assert len(set(SEEN)) == 45
    assert set(SEEN) <= set(RECORDS)
