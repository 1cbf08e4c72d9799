"""The inner loop: measured decay beside its bound."""

from bome_studies.theory.inner_loop import inner_decay, inner_steps
from tests.support.evidence import evidence


def test_the_decay_of_random_instances_keeps_its_bound() -> None:
    """Real descent on the real instances of preset smoke."""
    topic = inner_decay(evidence())
    assert [(claim.variant, claim.holds) for claim in topic.claims] == [("quadratic", True), ("wavy", True)]
    assert all(row.mean > 0 for row in topic.rows)


def test_a_measure_that_does_not_depend_on_t_is_no_exponential() -> None:
    topic = inner_steps(evidence())
    assert {claim.place for claim in topic.claims} >= {"Theorem 1"}
    assert [claim.holds for claim in topic.claims if claim.text.startswith("T enters")] != [True, True]
    assert len(topic.section.figures) == 2
