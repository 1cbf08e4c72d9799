"""The cells of each preset."""

from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.data import KINDS
from bome_studies.cleaning.protocol import PROTOCOLS


def test_presets_have_the_cells_that_the_aims_speak_of() -> None:
    for preset in ("quick", "paper"):
        protocol = PROTOCOLS[preset]
        assert protocol.seeds >= 5
        assert len(set(protocol.cells)) == len(protocol.cells)
        for data in ("digits", "mnist", "fashion", "20news"):
            own = [cell for cell in protocol.cells if cell.data.startswith(data)]
            assert {cell.kind for cell in own} == set(KINDS)
            assert min(cell.rate for cell in own) == 0.2
            assert max(cell.rate for cell in own) == 0.9
        assert any(cell.data == "mnist" and cell.rate == 0.5 for cell in protocol.cells)
    assert {cell.trusted for cell in PROTOCOLS["paper"].cells} >= {50, 5_000}
    assert (len(PROTOCOLS["smoke"].cells), PROTOCOLS["smoke"].seeds) == (2, 2)
