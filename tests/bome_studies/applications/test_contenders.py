"""Contenders: settings reach the methods, budgets are kept, refusals are told."""

import math
from dataclasses import replace

import pytest

from bome.methods import BOME, SABA, Probe
from bome.runs.names import METHODS
from bome_studies.applications.contenders import SOLVE, Contender, RefusedError, method_of, names
from bome_studies.applications.problems import APPLICATIONS
from bome_studies.applications.problems.pictures import pictures

POOL = pictures("digits")


def test_all_methods_take_part_once() -> None:
    assert set(METHODS) < set(names())
    assert names()[0] == SOLVE
    assert len(set(names())) == len(names())


def test_methods_have_the_first_settings_of_the_application() -> None:
    application = APPLICATIONS["operations"](POOL, 0)
    bome = method_of("bome", application, 1000)
    assert isinstance(bome, BOME)
    assert (bome.inner.lr, bome.inner.steps, bome.inner.momentum) == (0.03, 10, 0.9)  # type: ignore[attr-defined]
    probe = method_of("probe:young", application, 1000)
    assert isinstance(probe, Probe)
    assert probe.episode == 20
    saba = method_of("saba", application, 1000)
    assert isinstance(saba, SABA)
    assert application.inner is not None
    assert (saba.inner_parts, saba.outer_parts) == (application.inner.parts, application.inner.parts)


@pytest.mark.parametrize("name", ["itd", "saba", "probe:young"])
def test_a_run_keeps_to_its_budget_and_moves_v(name: str) -> None:
    application = APPLICATIONS["distillation"](POOL, 0)
    before = application.problem.v.leaves[0].detach().clone()
    live = Contender(name).run(application, 100, 0)
    assert math.isfinite(live.f)
    assert 100 <= live.evaluations < 140  # T + 1 and, for itd, as many products of both kinds, in the last step
    assert not bool((application.problem.v.leaves[0] == before).all())


def test_the_factor_is_that_of_the_learning_rate_of_v() -> None:
    moves = []
    for factor in (1.0, 3.0):
        application = APPLICATIONS["layer-decay"](POOL, 0)
        Contender("itd").run(application, 10, 0, factor)  # one step of Adam: its learning rate in each entry
        moves.append(float((application.problem.v.leaves[0].detach() + 7).abs().max()))
    assert moves == pytest.approx([0.05, 0.15], rel=1e-3)


def test_what_is_refused_is_told_in_words() -> None:
    with pytest.raises(RefusedError, match="min-max"):
        Contender("ogda").run(APPLICATIONS["anil"](POOL, 0), 100, 0)


def test_a_run_that_diverges_has_no_answer() -> None:
    application = APPLICATIONS["saddle"](POOL, 0)
    fast = replace(application, first=replace(application.first, inner_lr=1e3))
    live = Contender("itd").run(fast, 5000, 0)
    assert math.isnan(live.f)
    assert live.note


def test_solve_takes_part_with_nothing_set() -> None:
    application = APPLICATIONS["penalties"](POOL, 0)
    start = application.judge().F
    live = Contender(SOLVE).run(application, 600, 0)
    assert live.evaluations < 720  # the verdict may look once more
    assert start - application.judge().F > 0.1


def test_solve_takes_minibatches_and_says_which_arm_won() -> None:
    application = APPLICATIONS["distillation"](POOL, 0)
    live = Contender(SOLVE).run(application, 1000, 0)
    assert live.evaluations < 1060  # an outer step and a last judgement are not interrupted
    assert live.note.startswith(("young", "old", "start"))
