"""The outer loop: inequalities that must hold at every step, and decay that is known."""

from bome_studies.theory.outer_loop import inequalities, outer_decay, proposition
from bome_studies.theory.tallies import Checks
from tests.support.evidence import evidence, with_checks


def test_one_wrong_step_breaks_an_inequality() -> None:
    assert [claim.holds for claim in inequalities(evidence()).claims] == [True, True, True]
    wrong = Checks(steps=10, active=5, error=1.1, slack=-1e-3, equality=1e-3)
    assert [claim.holds for claim in inequalities(with_checks(evidence(), wrong)).claims] == [False, False, False]


def test_a_rate_that_does_not_depend_on_the_step_size_is_not_proportional_to_it() -> None:
    """The made-up gap falls like e^{-k} whatever ξη is: faster than the bound, and not in proportion."""
    claims = outer_decay(evidence()).claims
    assert [claim.holds for claim in claims] == [True, False]


def test_the_limit_needs_a_residual_that_falls_and_a_multiplier_that_grows() -> None:
    assert [claim.holds for claim in proposition(evidence()).claims] == [False, False]  # the made-up λ falls
