"""The page on solve is true: its example runs as printed, and brute force agrees with every number of it."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

PAGE = (Path(__file__).parent.parent / "docs" / "solve.md").read_text()
NUMBER = r"-?\d+\.?\d*"


def profit(
    price: NDArray[np.float64], evening: float, seats: float = 50, seats_of_rival: float = 40
) -> NDArray[np.float64]:
    """Your profit at each price, by brute force over the prices of the rival; −∞ where passengers are left behind."""
    answers = np.linspace(0, 100, 20_001)
    passengers = 80 - 2 * answers + price[:, None]
    of_rival = np.where(passengers <= seats_of_rival + 1e-9, (answers - 8) * passengers, -np.inf)
    answer = answers[of_rival.argmax(1)]
    carried = 100 - 2 * price + answer - 6 * evening
    return np.where(carried <= seats + 1e-2, (price - 10) * carried, -np.inf)


def best(**changed: float) -> tuple[float, float]:
    """The best price and profit, if the rival does what is best for you."""
    price = np.linspace(40, 55, 1501)
    values = profit(price, 0.0, **changed)
    return float(price[values.argmax()]), float(values.max())


def printed_by(number: int) -> tuple[str, str]:
    """What an example prints, and what the page says that it prints."""
    code, expected = (re.findall(rf"```{kind}\n(.*?)```", PAGE, flags=re.DOTALL) for kind in ("python", "text"))
    out, names = io.StringIO(), dict[str, Any]()
    with contextlib.redirect_stdout(out):
        exec(compile(code[number], "solve.md", "exec"), names)  # noqa: S102 - our own text
    return out.getvalue(), expected[number]


@pytest.fixture(scope="module")
def ferry() -> tuple[str, str]:
    """The first example."""
    return printed_by(0)


@pytest.fixture(scope="module")
def printed(ferry: tuple[str, str]) -> str:
    """What it prints."""
    return ferry[0]


def test_the_example_with_minibatches_prints_about_what_the_page_says() -> None:
    """A long noisy path differs from machine to machine: the numbers by less than a half, the words not at all."""
    printed, expected = printed_by(1)
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", expected)
    ours, theirs = ([float(x) for x in re.findall(NUMBER, text)] for text in (printed, expected))
    assert ours == pytest.approx(theirs, rel=0.5, abs=0.03)


def test_the_example_prints_what_the_page_says(ferry: tuple[str, str]) -> None:
    printed, expected = ferry
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", expected)
    ours, theirs = ([float(x) for x in re.findall(NUMBER, text)] for text in (printed, expected))
    assert ours[:-2] == pytest.approx(theirs[:-2], rel=2e-2)  # how many runs agree differs from machine to machine


def test_brute_force_agrees_with_it(printed: str) -> None:
    price, rival, value, worst, seat, seat_of_rival = map(float, re.findall(NUMBER, printed)[:6])
    expected = best()
    assert price == pytest.approx(expected[0], abs=0.051)
    assert rival == pytest.approx(20 + price / 2, abs=0.08)  # all 40 seats of the rival are taken
    assert value == pytest.approx(expected[1], rel=2e-3)
    assert worst == pytest.approx(float(profit(np.array([expected[0]]), 1.0)[0]), rel=5e-3)
    step = 4.0
    assert seat == pytest.approx((best(seats=50 + step)[1] - best(seats=50 - step)[1]) / (2 * step), abs=0.7)
    changes = (best(seats_of_rival=40 + step)[1], best(seats_of_rival=40 - step)[1])
    assert seat_of_rival == pytest.approx((changes[0] - changes[1]) / (2 * step), rel=0.06)


def test_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (Path(__file__).parent.parent / "docs" / link).exists(), link
