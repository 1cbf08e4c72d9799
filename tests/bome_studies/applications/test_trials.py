"""Trials: what is run, in which order, what is kept, and how settings are chosen."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bome_studies.applications import trials
from bome_studies.applications.problems import APPLICATIONS
from bome_studies.applications.problems.pictures import pictures
from bome_studies.applications.protocol import PROTOCOLS, ApplicationsProtocol
from bome_studies.applications.trials import (
    BASELINES,
    START,
    Outcome,
    Trial,
    collected,
    measured,
    plain,
    restored,
    tried,
)
from tests.support.applied import outcome

SMALL = ApplicationsProtocol(
    seeds=2, budget=40, contenders=("itd",), tuned=("itd",), applications=("penalties",), pool="digits"
)


def _silent(what: str, done: int, total: int) -> None:
    pass


def test_baselines_are_those_of_the_applications() -> None:
    for name, build in APPLICATIONS.items():
        assert BASELINES.get(name, ()) == tuple(build(pictures("digits"), 0).by_hand)


def test_names_of_files_differ() -> None:
    for protocol in PROTOCOLS.values():
        made = [trial.name for trial in plain(protocol).values()]
        assert len(set(made)) == len(made)


def test_a_trial_is_judged_and_survives_its_file() -> None:
    trial = Trial("penalties", "itd", 0, 1.0, 100, "digits")
    first = tried(trial)
    assert first.F is not None
    assert first.live is not None
    assert 0.3 < first.F < 0.43  # 0.44 at the start
    assert replace(tried(trial), seconds=first.seconds) == first
    assert restored(asdict(first)) == first
    start = tried(replace(trial, contender=START))
    assert start.F is not None
    assert abs(start.F - 0.440) < 5e-4
    assert start.evaluations == 0


def test_refusals_and_divergence_are_outcomes() -> None:
    assert tried(Trial("anil", "ogda", 0, 1.0, 100, "digits")).refused
    lost = tried(Trial("bilinear", "gda", 0, 1e9, 4000, "digits"))
    assert lost.F is None
    assert not lost.refused


def test_the_factor_with_the_lowest_f_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[Trial]()

    def work(trial: Trial) -> Outcome:
        seen.append(trial)
        return outcome({0.3: 2.0, 1.0: None, 3.0: 1.0}[trial.factor], live=1.0)

    monkeypatch.setattr(trials, "tried", work)
    results = measured(SMALL, tmp_path, _silent, 1)
    assert results.factors == {("penalties", "itd, tuned"): 3.0}
    assert results.values("penalties", "itd, tuned") == [1.0, 1.0]
    assert results.values("penalties", "itd") == []
    assert results.missing == 0
    assert {trial.seed for trial in seen if trial.contender == "itd"} == {0, 1, 100}
    again = len(seen)
    measured(SMALL, tmp_path, _silent, 1)
    assert len(seen) == again  # all of it was read


def test_what_was_not_run_is_missing(tmp_path: Path) -> None:
    results = collected(SMALL, tmp_path)
    assert results.by_name == {"penalties": {}}
    assert results.mean("penalties", "itd") is None
    assert not results.is_complete("penalties", "itd")
