"""The page of a mixture."""

from typing import Any

import numpy as np
import pytest

from bome.apps.mix.page import MOST_NAMED, drawings, rendered, weights_over_steps
from tests.support.pages import PAYLOADS, check_safe


def history(names: list[str]) -> list[dict[str, Any]]:
    """The first source gains, the others lose."""
    n = len(names)
    return [
        {"step": k, "f": None if k == 1 else 2.0 - k / 10,
         **{f"weight/{name}": 1 / n + (k / 100 if i == 0 else -k / 100 / (n - 1)) for i, name in enumerate(names)}}
        for k in range(3)
    ]  # fmt: skip


def summary(names: list[str]) -> dict[str, Any]:
    return {
        "weights": {name: (i + 1) / sum(range(1, len(names) + 1)) for i, name in enumerate(names)},
        "tokens": dict.fromkeys(names, 1234),
        "certificate": {"verdict": "near a solution"},
        "f": 1.5, "held_out_loss": 1.75, "steps": 300, "evaluations": {"g": 20, "f": 10}, "seconds": 2.0,
        "settings": {"steps": 300},
    }  # fmt: skip


def test_the_page_tells_everything_with_the_largest_weight_first() -> None:
    text = rendered(summary(["a", "b", "c"]), drawings(history(["a", "b", "c"])), "bome mix --out x")
    words = check_safe(text, styles=2).words
    for expected in ("Near a solution.", "bome mix --out x", "1,234", "50.0%", "1.50", "1.75", "g: 20, f: 10", "300"):
        assert expected in words, expected
    assert words.index("50.0%") < words.index("33.3%") < words.index("16.7%")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_source_is_called_is_text(payload: str) -> None:
    names = [payload, "other"]
    check_safe(rendered(summary(names), drawings(history(names))[:1], payload), styles=2)


def test_of_many_sources_those_that_move_most_have_a_name() -> None:
    names = [f"s{i}" for i in range(MOST_NAMED + 3)]
    figure = weights_over_steps(history(names))
    (legend,) = figure.legends
    assert len(legend.get_texts()) == MOST_NAMED
    assert legend.get_texts()[0].get_text() == "s0"
    lines = figure.axes[0].lines
    assert len(lines) == len(names) + 1
    assert np.asarray(lines[-1].get_ydata()).tolist() == [1 / len(names)] * 2
