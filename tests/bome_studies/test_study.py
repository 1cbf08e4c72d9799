"""What every study gives."""

from bome_studies.study import Claim, decided


def test_the_smoke_preset_leaves_every_claim_open() -> None:
    claims = [Claim("", "", "", "", holds) for holds in (True, False, None)]
    assert [claim.holds for claim in decided(claims, "smoke")] == [None, None, None]
    assert [claim.holds for claim in decided(claims, "quick")] == [True, False, None]
