"""The page of the cleaning study."""

import json
import math
from dataclasses import asdict

from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.claims import behind
from bome_studies.cleaning.study import findings
from bome_studies.cleaning.trials import Results, Scores, Trial
from tests.support.cleaned import CELLS, results_of


def test_a_failure_of_our_own_counts_as_behind_and_one_of_a_baseline_is_told() -> None:
    results = results_of(lambda cell, name, seed: 90.0 if name == "bome" else 80.0)
    broken = {
        Trial(CELLS[0], 1, "bome"): Scores(failure="ValueError: no"),
        Trial(CELLS[1], 0, "GCE"): Scores(failure="ValueError: never"),
    }
    results = Results({**results.scores, **broken}, CELLS, 3)
    assert behind(results) == [CELLS[0]]
    assert math.isnan(results.mean(CELLS[1], "GCE", "auc")[0])
    told = findings(results, "quick")
    assert any("Failed: GCE" in note and "never" in note for note in told.notes)
    assert any(note.startswith("Behind") and "failed" in note for note in told.notes)
    assert [claim.holds for claim in told.claims[:2]] == [False, False]  # one of four cells is more than a tenth
    json.dumps([asdict(row) for row in told.rows], allow_nan=False)
