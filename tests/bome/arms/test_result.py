"""What is said of a race: every warning where it is due, and nowhere else."""

from dataclasses import replace

import pytest

from bome.arms.result import certificate, warnings
from bome.worth import Refit

START = Refit(
    F=1.2, f=2.3, f_start=2.3, g_start=2.3, g=0.5, late=0.05, slope=1.0, slope_first=1.0, steps=1000, warm=False,
    on_bounds=(), evaluations={"g": 1000},
)  # fmt: skip
YOUNG, OLD = replace(START, F=0.5, f=0.6), replace(START, F=0.6, f=0.65)
ARMS = {"start": START, "young": YOUNG, "old": OLD}


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert warnings(ARMS, "young") == ()
    found = certificate(ARMS, "young")
    assert found.verdict == "confirmed by training θ anew: F(v) = 0.5, 1.2 at the start"
    assert (found.f, found.g) == (0.5, 0.5)
    assert found.q == pytest.approx(0.05 * 1.8)


def test_nothing_beats_the_start() -> None:
    worse = {"start": START, "young": replace(YOUNG, F=1.3, f=1.3), "old": replace(OLD, F=1.4, f=1.4)}
    assert warnings(worse, "start")[0] == "nothing beats the start: v is as it was"
    assert certificate(worse, "start").verdict == "not confirmed: nothing beats the start"


def test_the_arms_disagree_where_one_gains_less_than_half_of_the_other() -> None:
    apart = {**ARMS, "old": replace(OLD, F=0.9, f=0.9)}
    (text,) = warnings(apart, "young")
    assert text.startswith("the arms disagree (young 0.5, old 0.9): v depends on how long θ is trained")
    assert warnings({**ARMS, "old": replace(OLD, F=0.8, f=0.8)}, "young") == ()
    assert warnings({"start": START, "young": YOUNG}, "young") == ()  # one arm alone


def test_an_arm_that_has_switched_g_off_is_named() -> None:
    off = {**ARMS, "old": replace(OLD, F=2.6, f=2.6, g=0.001)}
    assert [text[:30] for text in warnings(off, "young")][1:] == ["the old arm: v has made g easy"]
    won = {**ARMS, "young": replace(YOUNG, F=1.1, f=1.1, flat=0.01, f_start=1.1)}
    assert certificate(won, "young").verdict.startswith("not confirmed: v has switched g off")


def test_a_live_theta_that_flatters_is_told() -> None:
    """Of the arm that won; θ as it is left was trained anew, so the verdict stands."""
    arms = {"start": START, "old": replace(OLD, F=0.9, f=0.04)}
    (text,) = warnings(arms, "old")
    assert text.startswith("live 0.04, refit 0.9: a θ that is kept while v moves learns the data of f")
    assert certificate(arms, "old").verdict.startswith("confirmed")
