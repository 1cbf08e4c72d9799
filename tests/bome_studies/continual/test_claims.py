"""The claims on continual learning: each is decided by the numbers, and open where they are missing."""

from dataclasses import replace

import pytest

from bome_studies.continual.claims import CONSTANT, PAPER, claims, notes, rows_of
from bome_studies.continual.figures import sections
from bome_studies.continual.protocol import ABLATIONS
from bome_studies.continual.results import Entry, Missing, Results, Runs
from bome_studies.study import Claim
from tests.support.continual_results import DIGITS, DIVERGED, results, summary_of, verdicts


def test_claims_are_decided_by_the_numbers() -> None:
    good = verdicts(results([81.0, 80.6], [78.6, 78.4]))
    assert good["ACC of the network with BOME"] is True
    assert good["NBT of the network with BOME"] is True
    assert good["BOME in place of the published optimiser improves ACC by 1.5 points"] is True
    assert good["Learning all tasks at once is an upper bound"] is True
    assert good["ctn+itd: ACC within 2 points of the paper"] is True
    bad = verdicts(results([80.0, 79.0], [78.6, 78.4], offline=77.0))
    assert bad["ACC of the network with BOME"] is False
    assert bad["BOME in place of the published optimiser improves ACC by 1.5 points"] is False
    assert bad["Learning all tasks at once is an upper bound"] is False
    assert verdicts(results([81.0, 81.0], [75.0, 75.0]))["ctn+itd: ACC within 2 points of the paper"] is False


def test_one_seed_decides_nothing() -> None:
    single = verdicts(results([81.0], [75.0]))
    assert single["ctn+itd: ACC within 2 points of the paper"] is None
    assert single["Learning all tasks at once is an upper bound"] is None
    assert single["BOME in place of the published optimiser improves ACC by 1.5 points"] is None


def test_a_row_near_to_the_papers_has_its_settings_as_a_title_and_makes_no_claim() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    chosen = Entry("ctn+penalty", "selected", {"lam": 1.0}, Runs([summary_of(81.0)] * 2), (80.0, 81.0))
    near = Entry("ctn+penalty", "nearer", {"lam": 0.01}, Runs([summary_of(66.0)]))
    decided = verdicts(replace(found, entries=(*found.entries, chosen, near)))
    assert decided["ctn+penalty, tuned: ACC within 2 points of the paper"] is False
    assert near.title == "ctn+penalty, lam = 0.01"
    assert not [text for text in decided if text.startswith(near.title)]
    assert near.title in " ".join(notes(replace(found, entries=(near,))))


def test_what_is_about_missing_runs_is_not_decided() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    offline, itd, bome = found.entries
    partly = verdicts(
        replace(
            found, entries=(offline, replace(itd, seeds=5), bome), missing=(Missing("published", "ctn+itd: 2 of 5"),)
        )
    )
    assert partly["BOME in place of the published optimiser improves ACC by 1.5 points"] is None
    assert partly["ctn+itd: ACC within 2 points of the paper"] is None
    assert partly["ACC of the network with BOME"] is True
    assert partly["ctn+bome: ACC within 2 points of the paper"] is True
    partly = verdicts(replace(found, entries=(offline, itd, replace(bome, seeds=5))))
    assert partly["ACC of the network with BOME"] is None
    assert partly["NBT of the network with BOME"] is None


def test_tuned_bome_is_compared_with_the_best_of_the_others() -> None:
    """Runs that are missing leave that open only if they are tuned."""
    found = results([81.0], [78.0])
    tuned = [
        Entry(name, "selected", {}, Runs([summary_of(acc), summary_of(acc + 1)]), (1.0,) * tried)
        for name, acc, tried in (("offline", 90.0, 1), ("er", 70.0, 1), ("mer", 82.0, 3), ("ctn+bome", 81.5, 2))
    ]
    text = "With settings chosen on the tuning tasks BOME is ahead of all others"
    told = "ctn+bome, tuned minus mer, tuned: -0.50 ± 0.00 points on 2 common seeds; chosen from 2 and 3 settings"
    for missing, holds in (((), False), (("ablation",), False), (("selected",), None)):
        short = tuple(Missing(variant, "") for variant in missing)
        every = replace(found, entries=(*found.entries, *tuned), missing=short)
        claim = next(c for c in claims(every) if c.text == text)
        assert (claim.found, claim.holds) == (told, holds)


def test_tuned_bome_is_not_said_to_be_ahead_of_what_lies_at_an_end_of_its_grid() -> None:
    grid = ({"theta_lr": 0.1}, {"theta_lr": 0.2}, {"theta_lr": 0.3})
    runs = [Runs([summary_of(acc), summary_of(acc + 1)]) for acc in (82.0, 81.0)]
    bome = Entry("ctn+bome", "selected", {}, runs[0], (1.0, 2.0))
    text = "With settings chosen on the tuning tasks BOME is ahead of all others"
    for values, holds in (({"theta_lr": 0.3}, None), ({"theta_lr": 0.2}, True)):
        other = Entry("mer", "selected", values, runs[1], (1.0,) * 3, grid)
        found = results([81.0], [78.0])
        claim = next(c for c in claims(replace(found, entries=(*found.entries, other, bome))) if c.text == text)
        assert (claim.holds, claim.found.endswith("mer lies at an end of its grid")) == (holds, holds is None)


def test_settings_that_are_texts_stand_among_the_rows() -> None:
    entry = Entry("ctn+bome", "selected", {"eta": 2.0, "replay_from": "seen"}, Runs([summary_of(80.0)]))
    rows = {row.metric: row.mean for row in rows_of(Results(DIGITS, (entry,)), "smoke", "")}
    assert (rows["eta"], rows["replay_from=seen"]) == (2.0, 1.0)


def test_a_small_advantage_is_not_called_one() -> None:
    """0.3 ± 0.2 is open, 0.6 ± 0.1 an advantage, and −0.6 ± 0.1 none."""
    cifar = [replace(results([68.1 + a, 67.9 + b], [68.0, 68.0]), task="continual-cifar") for a, b in
             ((0.4, 0.2), (0.6, 0.6), (-0.6, -0.6))]  # fmt: skip
    text = "BOME in place of the published optimiser improves ACC"
    assert [verdicts(found)[text] for found in cifar] == [None, True, False]


def test_both_replays_are_compared_and_what_is_beyond_the_paper_is_not_chosen_by_test_images() -> None:
    found = results([81.0, 80.6], [80.0, 79.6])
    seen = [
        Entry(e.strategy, "seen", {"replay_from": "seen"}, e.runs)
        for e in results([82.0, 82.0], [80.0, 80.2]).entries[1:]
    ]
    tuned = Entry("ctn+bome", "selected", {"eta": 4.0}, Runs([summary_of(81.4)]), (80.0, 81.0))
    decided = verdicts(replace(found, entries=(*found.entries, *seen, tuned)))
    assert decided["BOME in place of the published optimiser improves ACC by 1.5 points"] is False
    assert decided[
        "BOME in place of the published optimiser improves ACC by 1.5 points, with replays of the current task too"
    ]
    assert decided["With settings chosen on the tuning tasks BOME goes beyond the paper's ACC"] is False
    assert "ctn+bome, tuned: ACC within 2 points of the paper" not in decided


def test_a_diverged_run_counts_as_unknown_not_as_missing() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    lost = replace(found.entries[1], runs=Runs([summary_of(78.0), DIVERGED]))
    spoiled = replace(found, entries=(found.entries[0], lost, found.entries[2]))
    decided: list[Claim] = list(claims(spoiled))
    assert next(c for c in decided if c.text.startswith("ctn+itd")).holds is None
    assert lost.runs.failures() == [(1, "NaN")]
    assert not [row for row in rows_of(spoiled, "paper", "") if row.method == "ctn+itd" and row.metric == "acc"]
    assert list(sections(spoiled))


def test_the_tables_of_the_paper_add_up() -> None:
    """FT = ACC + NBT in every row of the main table, and FM is the larger of the two."""
    for rows in PAPER.values():
        for row in rows.values():
            if "nbt" in row:
                assert row["acc"] + row["nbt"] == pytest.approx(row["ft"], abs=0.011)
                assert row["fm"] > row["nbt"]


def test_the_constant_multiplier_of_the_claim_is_among_the_ablations() -> None:
    assert ABLATIONS[CONSTANT] == ("ctn+pbgd", {"gamma": 2.0})
