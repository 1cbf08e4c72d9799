"""Options that several verbs have, and the command that repeats a verb."""

from bome.cli.options import OracleChoice
from bome.oracles import OracleName


def test_the_choice_of_oracles_is_that_of_the_library() -> None:
    assert tuple(OracleChoice) == OracleName.__args__  # type: ignore[attr-defined]
