"""The page on what a v is worth: every number of it, by the formula and by the library."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import SGD

from bome import BOME, GradientDescent, MaxSteps, Problem, Result, Stepper, box, run
from bome.methods import F2SA, ITD, Method, Probe

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "worth.md").read_text()
RHO = 0.95


def row(method: str, section: str) -> list[float]:
    """The numbers of a method's row in a section of the page."""
    part = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    (line,) = [line for line in part.splitlines() if line.startswith(f"| `{method}`")]
    return [float(x) for x in line.split("|")[2:-1]]


def close(shown: float, value: float) -> bool:
    """Equal in the digits that are shown."""
    return shown == pytest.approx(value, rel=3e-3, abs=6e-4)


def learned(
    method: Method,
    f: Callable[[Any, Any], Any],
    g: Callable[[Any, Any], Any],
    start: tuple[float, Any],
    lr: float,
    steps: int,
    refit: Any = False,
) -> Result:
    v, theta = (torch.tensor(x, dtype=torch.float64) for x in start)
    problem = Problem(lambda v, t, b: f(v, t), lambda v, t, b: g(v, t), v, theta, box(0, 4))
    opts: Any = {"outer_opt": SGD([v], lr), "inner_opt": SGD([theta], 0.1)}
    return run(problem, method, **opts, stop=MaxSteps(steps), refit=refit)


def line_end(method: Method, lr: float = 1.0, steps: int = 60) -> float:
    """Where v ends on the problem of the first two sections."""
    found = learned(
        method, lambda v, t: ((t - 1) ** 2 + v**2) / 2, lambda v, t: (t - v) ** 2 / 4, (0.0, 0.0), lr, steps
    )
    return float(found.v)


@pytest.mark.parametrize(("place", "T"), [(0, 10), (1, 50)])
def test_the_bias_of_the_horizon(place: int, T: int) -> None:  # noqa: N803
    second = range(T // 2 + 1, T + 1)
    shares = {"itd": 1 - RHO**T, "probe": 1 - sum(RHO**t for t in second) / len(second)}
    ahead = GradientDescent(0.1, T)
    for method in (ITD(ahead), Probe(ahead)):
        s = shares[method.name]
        assert close(row(method.name, "The horizon")[place], s / (1 + s))
        assert line_end(method, 0.5) == pytest.approx(s / (1 + s), rel=1e-3)


@pytest.mark.parametrize(("place", "lam"), [(0, 2.0), (1, 20.0)])
def test_the_bias_of_a_factor(place: int, lam: float) -> None:
    s = lam / 2 / (1 + lam / 2)
    assert close(row("f2sa", "The factor λ, and σ")[place], s / (1 + s))
    problem_end = line_end(F2SA(GradientDescent(0.5, 20), lam, schedule="constant"), 0.3, 120)
    assert problem_end == pytest.approx(s / (1 + s), rel=5e-3)


@pytest.mark.parametrize(("place", "reach"), [(0, 0.03), (1, 0.015)])
def test_one_side_has_a_bias_and_both_have_none(place: int, reach: float) -> None:
    """With z = 1 at rest, y^(t) − 1 = e(1 − 0.9^t) and e = 1/σ; σ = αT/reach, as ‖d‖ = ‖θ‖ = 1."""
    T = 10  # noqa: N806
    sigma = 0.1 * T / reach
    share = sum((1 - 0.9**t) ** 2 for t in range(T // 2 + 1, T + 1)) / (T - T // 2)
    expected = {"one": sigma * 0.5 * share / sigma**2, "both": 0.0}
    for sides, name in (("one", "probe"), ("both", "probe:symmetric")):
        v, theta = torch.tensor(1.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
        problem = Problem(lambda v, t, b: (t - 2) ** 2 / 2, lambda v, t, b: v * (t - 1) ** 2 / 2, v, theta)
        method = Probe(GradientDescent(0.1, T), sides, reach=reach, draw="one")  # type: ignore[arg-type]
        Stepper(problem, method, SGD([v], 1.0)).step()
        assert 1 - float(v) == pytest.approx(expected[sides], rel=1e-9, abs=1e-15)
        assert close(row(name, "The factor λ, and σ")[place], expected[sides])


def test_a_joint_method_switches_g_off() -> None:
    result = learned(
        BOME(GradientDescent(0.1, 10)),
        lambda v, t: (t - 2) ** 2,
        lambda v, t: v * (t - 1) ** 2,
        (1.0, 0.0),
        1.0,
        200,
        refit=None,
    )
    found = result.refit
    assert found is not None
    assert found.F_first is not None
    for shown, value in zip(
        row("bome", "Why v switches g off"), (float(result.v), found.f, found.F, found.F_first), strict=True
    ):
        assert close(shown, value)
    for text in ("v has switched g off", "v is worth no more than the first one"):
        assert text in PAGE
        assert any(warning.startswith(text) for warning in found.warnings)


@pytest.mark.parametrize("method", [BOME(GradientDescent(0.1, 10)), ITD(GradientDescent(0.1, 10))])
def test_where_the_optimistic_problem_is_the_wrong_one(method: Method) -> None:
    """F(v) = ½(v/2 − 1)², whatever the method has found."""
    result = learned(
        method,
        lambda v, t: (t[0] - 1) ** 2 / 2,
        lambda v, t: (t[0] + t[1] - v) ** 2 / 2,
        (0.5, [0.0, 0.0]),
        0.3 if method.name == "itd" else 0.1,
        300,
        refit=GradientDescent(0.1, 200),
    )
    assert result.refit is not None
    v = float(result.v)
    assert pytest.approx((v / 2 - 1) ** 2 / 2, abs=1e-9) == result.refit.F
    for shown, value in zip(
        row(method.name, "Where the optimistic problem is the wrong one"), (v, result.f, result.refit.F), strict=True
    ):
        assert close(shown, value)


def test_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (DOCS / link).exists(), link
