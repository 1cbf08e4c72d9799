"""The study of continual learning: settings are chosen on the tuning tasks, runs are shared, read and reported."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bome.continual.run import Spec, Summary, ended, learn
from bome.errors import ProblemError
from bome.storage.folder import Folder
from bome_studies import page
from bome_studies.continual import study
from bome_studies.continual.claims import notes
from bome_studies.continual.protocol import PROTOCOLS, Candidate
from bome_studies.continual.results import Entry, Results, Runs
from bome_studies.continual.study import carry_out, choose, collected, one_part, place
from tests.support.continual_results import DIGITS, DIVERGED, NAMES, SMALL, silent, summary_of


def test_the_experiment_chooses_on_the_tuning_tasks_runs_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    Folder(tmp_path).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    findings = study.CONTINUAL.run("smoke", tmp_path, silent)
    page.write(tmp_path, findings)
    choice = json.loads((tmp_path / "parts" / DIGITS / "tuning" / "offline-chosen.json").read_text())
    best = max(choice["tried"], key=lambda one: one["acc"])
    assert choice["values"] == best["values"] == {"theta_lr": 0.3}
    run = json.loads((place(tmp_path, Spec(DIGITS, "offline", 0, {"theta_lr": 0.3})) / "config.json").read_text())
    assert run["spec"]["settings"]["theta_lr"] == 0.3
    tried = place(tmp_path, Spec(DIGITS, "offline", 0, {"theta_lr": 0.01}, "tuning"))
    tuned = json.loads((tried / "config.json").read_text())
    assert tuned["spec"]["part"] == "tuning"
    rows = {(row.method, row.variant, row.metric): row for row in findings.rows}
    assert rows["offline", "selected", "theta_lr"].mean == 0.3
    assert rows["ctn+bome", "published", "acc"].seeds == 2
    assert ("ctn+bome", "η = 1", "acc") in rows
    assert not any(row.method == "ctn+pbgd" for row in findings.rows)
    assert ("offline", "selected", "ft") not in rows
    assert len(findings.sections) == 2
    assert all(claim.holds is None for claim in findings.claims)  # smoke decides nothing
    monkeypatch.setattr("bome.continual.run._Run", None)  # a second time everything is read
    again = study.CONTINUAL.run("smoke", tmp_path, silent)
    assert again.rows == findings.rows


def test_a_stream_of_which_no_run_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL, replace(SMALL, task="continual-cifar"))})
    one_part("smoke", DIGITS, "ctn+itd", 0, tmp_path)
    findings = study.CONTINUAL.so_far("smoke", tmp_path)
    assert any("continual-cifar, runs that have ended so far" in note for note in findings.notes)
    assert {row.task for row in findings.rows} == {DIGITS}


def test_a_run_with_other_settings_is_not_reported(tmp_path: Path) -> None:
    spec = Spec(DIGITS, "er", 0)
    summary = learn(spec, tmp_path)
    assert ended(spec, tmp_path) == summary
    assert ended(replace(spec, values={"theta_lr": 0.5}), tmp_path) is None
    assert ended(replace(spec, seed=1), tmp_path) is None


def test_one_part_can_be_carried_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    summary = one_part("smoke", DIGITS, "ctn+itd", 0, tmp_path)
    assert ended(Spec(DIGITS, "ctn+itd", 0), place(tmp_path, Spec(DIGITS, "ctn+itd", 0))) == summary
    with pytest.raises(ProblemError, match="has no 'gem'"):
        one_part("smoke", DIGITS, "gem", 0, tmp_path)
    with pytest.raises(ProblemError, match="no task"):
        one_part("smoke", "continual-pmnist", "er", 0, tmp_path)


def test_settings_are_chosen_again_if_the_grid_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = SMALL.candidates[0]
    assert choose(SMALL, candidate, tmp_path, silent, 1).values == {"theta_lr": 0.3}
    more = replace(candidate, grid=(*candidate.grid, {"theta_lr": 0.1}))
    assert collected(replace(SMALL, candidates=(more,)), tmp_path).missing[0].told == "offline (selected): 0 of 1"
    assert len(choose(SMALL, more, tmp_path, silent, 1).tried) == 3
    monkeypatch.setattr("bome.continual.run._Run", None)
    assert choose(SMALL, candidate, tmp_path, silent, 1).values == {"theta_lr": 0.3}


def test_settings_are_chosen_by_the_mean_over_the_tuning_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has the best single seed, the second the best mean, and the third diverges once."""
    accuracies = {0.1: (90.0, 50.0, 50.0), 0.2: (80.0, 79.0, 78.0), 0.3: (99.0, 99.0, None)}

    def ended(spec: Spec, folder: Path) -> Summary:
        acc = accuracies[spec.values["theta_lr"]][spec.seed]
        return DIVERGED if acc is None else summary_of(acc)

    monkeypatch.setattr(study, "ended", ended)
    monkeypatch.setattr(study, "learn", lambda spec, folder: None)
    candidate = Candidate("offline", 1, "selected", tuple({"theta_lr": rate} for rate in accuracies))
    found = choose(replace(SMALL, tuning_seeds=3), candidate, tmp_path, silent, 1)
    assert found.values == {"theta_lr": 0.2}
    assert found.tried[:2] == pytest.approx((190 / 3, 79.0))
    assert found.tried[2] is None
    entry = Entry("offline", "selected", found.values, Runs([summary_of(80.0)]), found.tried)
    told = "79.0; the lowest of 3 is 63.3; 1 diverged."
    assert next(notes(Results(DIGITS, (entry,)))).endswith(told)


@pytest.mark.slow
def test_the_smoke_preset_runs(tmp_path: Path) -> None:
    results = carry_out(PROTOCOLS["smoke"][0], tmp_path, silent, 1)
    assert {entry.strategy for entry in results.entries} == set(NAMES) - {
        "ctn+pbgd",
        "ctn+bome:auto",
    }  # these are in the ablation only
