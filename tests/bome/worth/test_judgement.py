"""What is said of a refit: every warning where it is due, and nowhere else."""

import math
from dataclasses import replace

import pytest

from bome.worth.judgement import Refit

GOOD = Refit(
    F=0.42, f=0.4, f_start=2.3, g_start=2.3, g=0.5, late=0.05, slope=1.0, slope_first=1.2, steps=1000, warm=False,
    on_bounds=(), evaluations={"g": 1000},
)  # fmt: skip


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert GOOD.warnings == ()
    assert str(GOOD) == "F(v) = 0.42 after 1,000 steps on g alone; f = 0.4 at the live θ"
    assert replace(GOOD, F=0.3).warnings == ()  # better than the live θ
    assert replace(GOOD, f_early=0.3).warnings == ()  # a little worse at the end is no matter
    assert replace(GOOD, g_start=-2.0, g=-3.0).warnings == ()  # g may be negative


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"f": 0.16, "F": 1.81}, "f = 0.16 flatters: a θ trained on g alone has 1.81"),
        ({"f": 0.4, "F": 0.6, "f_start": 0.4, "warm": True}, "f = 0.4 flatters"),
        ({"flat": 0.008, "F": 2.28, "f": 2.28}, "v has switched g off: ‖∇g‖ is 0.8% of what it was, and θ learns noth"),
        ({"F_first": 0.42}, "v is worth no more than the first one, whose F is 0.42"),
        ({"g": 0.001, "F": 2.6, "f": 2.6}, "v has made g easy: θ brings it to 1.0e-03, and f grows from 2.3 to 2.6"),
        (
            {"f_early": 1.05, "F": 1.59, "f": 1.6},
            "v suits a θ that stops early: f is 1.05 after 200 steps and 1.59 after 1,000",
        ),
        ({"late": 0.4}, "θ was still on its way: the second half of the steps brought 40% of the decrease of g"),
        ({"F": math.inf}, "θ diverges when it is trained on g alone: refit with smaller steps"),
        ({"on_bounds": ("v",)}, "v lies on its bound with all of its entries"),
    ],
)
def test_each_warning_is_given_where_it_is_due_and_alone(change: dict[str, object], text: str) -> None:
    found = replace(GOOD, **change)  # type: ignore[arg-type]
    assert [warning[: len(text)] for warning in found.warnings] == [text]
    assert str(found).splitlines()[1].startswith(text)


def test_a_small_gradient_alone_is_no_sign_that_g_is_off() -> None:
    """A g that is only scaled down still teaches θ; nor is anything said where the first v is not known."""
    assert replace(GOOD, flat=0.008).warnings == ()
    assert replace(GOOD, slope=0.01, F=2.28, f=2.28).warnings == ()


def test_the_gain_of_training_is_the_measure_whatever_the_scale_of_f() -> None:
    """f and F may be shifted and scaled: only their share of f_start − f counts."""
    for scale, shift in ((1e3, -5e3), (1e-3, 0.0)):
        near, far = (replace(GOOD, f=shift, F=shift + x * scale, f_start=shift + scale) for x in (0.2, 0.3))
        assert near.warnings == ()
        assert len(far.warnings) == 1


def test_what_the_first_v_is_worth_decides_whether_v_has_collapsed() -> None:
    """g falls by 1.8: much less than the 60 of the first v is a collapse where F has suffered, and else it is none."""
    worse, better = (replace(GOOD, F=F, f=F, F_first=1.5, fall_first=60.0) for F in (2.2, 0.5))
    assert [text.split(":")[0] for text in worse.warnings] == [
        "v is worth no more than the first one, whose F is 1.5",
        "v has switched g off",
    ]
    assert "it falls 3.0% as far as it did" in worse.warnings[1]
    assert better.warnings == ()
    assert len(replace(worse, flat=0.6).warnings) == 1  # g is as steep as it was elsewhere: θ starts where it is lowest
    assert str(better).startswith("F(v) = 0.5 after 1,000 steps on g alone, 1.5 with the first v; f = 0.5")


def test_a_start_that_was_trained_before_is_no_collapse() -> None:
    """θ starts near the minimiser for this v, where g is flat, and trained with the first v it would get worse."""
    found = replace(GOOD, f_start=0.41, F=0.4, f=0.4, flat=0.01, g_start=0.5, F_first=0.9, fall_first=50.0)
    assert found.warnings == ()


def test_both_refits_are_paid_for() -> None:
    first = replace(GOOD, F=1.5, evaluations={"g": 7, "f": 3})
    assert GOOD.beside(first).evaluations == {"g": 1007}
    assert (GOOD.beside(first).F_first, GOOD.beside(GOOD).evaluations) == (1.5, {"g": 1000})
