"""What a comparison runs."""

from bome.runs.names import METHODS as REGISTERED
from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import uses_t
from bome_studies.learning.protocol import METHODS

GAMES, CONSTRAINTS = {"gda", "ogda"}, {"bome-qp"}


def test_every_method_but_those_of_games_and_constraints_is_compared() -> None:
    assert set(METHODS) == set(REGISTERED) - GAMES - CONSTRAINTS
    assert not uses_t("soba")
    assert uses_t("bome")
