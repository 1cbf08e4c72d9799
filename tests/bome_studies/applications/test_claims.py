"""The aims of the study of the applications, and its tables."""

from collections.abc import Mapping
from dataclasses import replace

from bome_studies.applications.claims import best, by_hand, claims, groups, right_answers, rows_of, table
from bome_studies.applications.trials import Outcome, Results
from tests.support.applied import Values, outcome, results

GOOD: Values = {
    "meta-weights": {"bome.solve": [0.5, 0.6], "itd": [0.9, 1.0]},
    "layer-decay": {"bome.solve": [1.0, 1.1], "one decay for all": [1.0, 1.1], "itd": [1.2, 1.2]},
    "saddle": {"bome.solve": [0.1, 0.1], "itd": [0.3, 0.3]},
    "bilinear": {"bome.solve": [0.1, 0.1], "itd": [None, 0.3]},
    "distillation": {"bome.solve": [0.4, 0.4], "itd": [0.5, 0.5]},
    "learned-loss": {"bome.solve": [0.3, 0.4], "itd": [2.0, 2.1]},
    "penalties": {"bome.solve": [0.07, 0.08], "itd": [0.09, 0.1], "aid-cg": [0.08, 0.09]},
}

LEVEL: Values = {"bilinear": {"bome.solve": [0.1, 0.1], "itd": [0.3, 0.3]}}


def _holds(**changed: Mapping[str, list[float | None]]) -> list[bool | None]:
    values = {**GOOD, **{name.replace("_", "-"): own for name, own in changed.items()}}
    return [claim.holds for claim in claims(results(values))]


def _changed(made: Results, application: str, contender: str, first: Outcome) -> Results:
    """With another outcome of seed 0."""
    own = made.by_name[application]
    seeds = {**own.get(contender, {}), 0: first}
    return replace(made, by_name={**made.by_name, application: {**own, contender: seeds}})


def test_each_aim_has_an_outcome_that_breaks_it() -> None:
    """The game "bilinear" decides nothing in GOOD, since its other contender diverges with one seed."""
    assert _holds(**LEVEL) == [True] * 6
    bad: Mapping[str, list[float | None]] = {"bome.solve": [3.0, 3.0], "itd": [1.0, 1.0]}
    assert _holds(**LEVEL, meta_weights=bad) == [True, True, True, False, True, True]
    assert _holds(**LEVEL, meta_weights=bad, learned_loss=bad) == [False, True, True, False, False, True]
    decay: Mapping[str, list[float | None]] = {
        "bome.solve": [1.1, 1.2],
        "one decay for all": [1.0, 1.1],
        "itd": [1.2, 1.2],
    }
    assert _holds(**LEVEL, layer_decay=decay)[1] is False
    assert _holds(**LEVEL, distillation={"bome.solve": [1.6, 1.6], "itd": [2.0, 2.0]})[2] is False
    late: Mapping[str, list[float | None]] = {"bome.solve": [0.085, 0.09], "itd": [0.09, 0.1], "aid-cg": [0.08, 0.09]}
    assert _holds(**LEVEL, penalties=late)[-1] is False


def test_what_was_not_run_decides_nothing() -> None:
    assert _holds()[0] is None
    assert _holds(penalties={"bome.solve": [0.07], "itd": [0.09, 0.1], "aid-cg": [0.08, 0.09]})[-1] is None
    refused = _changed(results(GOOD), "meta-weights", "bome.solve", outcome(None, refused=True))
    assert [claim.holds for claim in claims(refused)][3] is None


def test_a_diverged_contender_is_behind() -> None:
    lost: Mapping[str, list[float | None]] = {"bome.solve": [None, 0.1], "itd": [0.3, 0.3]}
    assert "behind: distillation" in next(claims(results({**GOOD, **LEVEL, "distillation": lost}))).found


def test_a_thousandth_of_the_distance_at_the_start_is_level_with_nothing() -> None:
    def game(ours: float) -> Values:
        return {"saddle": {"bome.solve": [ours, ours], "itd": [1e-9, 1e-9], "start": [2.0, 2.0]}}

    assert "1 of 1" in next(claims(results(game(1e-3)))).found
    assert "behind: saddle games" in next(claims(results(game(3e-3)))).found


def test_the_games_count_as_one() -> None:
    assert groups(results(GOOD))["saddle games"] == ("saddle", "bilinear")
    assert len(groups(results(GOOD))) == len(GOOD) - 1


def test_tables_tell_what_is_missing_lost_and_refused() -> None:
    values: Values = {
        "penalties": {"start": [0.4, 0.4], "itd": [0.09], "bome": [None, 0.2], "one penalty for all": [0.3, 0.3]}
    }
    made = _changed(results({**values, "anil": {"darts": [1.0, 1.0]}}), "anil", "ogda", outcome(None, refused=True))
    told = {row[0]: row[1:] for row in table(made).rows}
    assert told["itd"] == ("0.09 (1/2)", "not run")
    assert told["bome"] == ("diverges (1 of 2)", "not run")
    assert told["darts"][1] == "1 ± 0"
    assert told["ogda"] == ("not run", "refused")
    assert by_hand(made).rows == (("penalties", "one penalty for all", "0.3 ± 0", "0.97 ± 0"),)
    assert best(made).rows[0] == ("penalties", "0.4 ± 0", "itd 0.09 (1/2)", "–", "–")
    assert {row[0]: row[1] for row in right_answers(made).rows}["itd"] == "0.991"
    assert made.missing == 1 + 2 + 2 + 2 + 2 + 1 + 2


def test_every_number_is_a_row() -> None:
    rows = list(rows_of(results(GOOD), "quick", "bome bench applications"))
    assert {row.metric for row in rows} == {"F", "test", "live", "evaluations", "seconds"}
    assert not any(row.task == "bilinear" and row.method == "itd" and row.metric == "F" for row in rows)
    assert replace(rows[0], se=None).mean == 0.55
