"""One battery over every registered method, those of other packages too; and the page about ours says what is true."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.optim import SGD

from bome import Batches, Stepper, testing
from bome.methods import Method
from bome.oracles import Needs
from bome.runs.names import METHODS
from bome.runs.plan import Plan
from bome.runs.plan import plan as make_plan

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
KINDS = ("g", "f", "hvp", "xvp")
OURS = [name for name, kind in METHODS.items() if kind.__module__.startswith("bome.")]
"""The page tells of these; methods of other packages pass the same checks."""
ENDS = {"solution": "solution", "penalised minimum": "penalty", "elsewhere": "elsewhere"}


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_passes_every_check(name: str, check: testing.MethodCheck) -> None:
    testing.run_check(check, _maker(name))


def _maker(name: str) -> testing.Make:
    """The method with its default settings; the dearest one with fewer batches."""
    make = testing.maker(METHODS[name])
    return make if name != "vrbo" else lambda settings: _changed(make(settings), large=2, Q=2)


def _changed(method: Method, **values: int) -> Method:
    changed: Method = replace(method, **values)  # type: ignore[type-var]
    return changed


@pytest.mark.parametrize("name", [name for name in OURS if name != "gda"])
def test_the_page_says_where_a_method_ends(name: str) -> None:
    """The battery shows that it does end there."""
    assert METHODS[name].settles == ENDS[_table()[name]["ends at"]]


def _table() -> dict[str, dict[str, str]]:
    """The rows of the table of `docs/methods.md`, by method and column."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    return {row[0].strip("`"): dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def test_the_page_has_a_row_and_a_section_for_every_method_and_no_other() -> None:
    sections = re.findall(r"^## `(.+)`$", PAGE.read_text(), re.MULTILINE)
    assert sections == list(_table())
    assert set(sections) == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_a_section_of_the_page_names_cost_and_use_and_every_variant_of_the_published_code(name: str) -> None:
    section = PAGE.read_text().split(f"\n## `{name}`\n")[1].split("\n## ")[0]
    assert "*Cost.*" in section
    assert "*When.*" in section
    assert re.search(r"^1\. ", section, re.MULTILINE)
    for variant in METHODS[name].variants:
        if variant not in ("auto", "constant"):
            assert f"`{variant}`" in section


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("steps", [1, 3])
def test_the_counts_of_the_page_are_the_measured_ones(name: str, steps: int) -> None:
    """The formulas of the table, as Python: K − 1 is K - 1 and 2(T + 1) is 2*(T + 1)."""
    task = "minimax" if name in ("ogda", "gda") else "quadratic"
    plan = make_plan(task, name, {"inner_steps": steps})
    method = _changed(plan.method, p=2, large=3) if name == "vrbo" else plan.method
    row, names = _table()[name], _letters(method)
    assert _measured(method, plan) == {kind: _value(row[kind], names) for kind in KINDS}


def _letters(method: Method) -> dict[str, int]:
    fields = {"T": "steps", "K": "K", "Q": "Q", "L": "large", "p": "p"}
    found = {letter: getattr(method, field, None) for letter, field in fields.items()}
    found["T"] = getattr(method.inner_map, "steps", None)
    return {letter: value for letter, value in found.items() if isinstance(value, int)}


def _value(formula: str, names: dict[str, int]) -> float:
    text = formula.replace("−", "-")
    text = re.sub(r"(?<=[0-9)])(?=[A-Z(])", "*", text)
    return float(eval(text, {"__builtins__": {}}, {"min": min, **names}))  # noqa: S307 - our own page


def _measured(method: Method, plan: Plan) -> dict[str, float]:
    """Evaluations of a step, averaged over a period that is not the first."""
    problem = plan.task.problem
    stepper = Stepper(problem, method, SGD(problem.v.leaves, 1e-3), SGD(problem.theta.leaves, 1e-3))
    batches = Batches(inner=(None,) * method.inner_batches, outer=(None,) * method.outer_batches)
    for _ in range(method.period):
        stepper.step_on(batches)
    before = stepper.counts.copy()
    for _ in range(method.period):
        stepper.step_on(batches)
    return {kind: (stepper.counts[kind] - before[kind]) / method.period for kind in KINDS}


@pytest.mark.parametrize("name", OURS)
def test_the_page_says_what_a_method_needs(name: str) -> None:
    second = bool(METHODS[name].requires & (Needs.HVP | Needs.UNROLL))
    assert _table()[name]["needs"].startswith("second order" if second else "gradients")


@pytest.mark.parametrize("name", OURS)
def test_a_method_says_whether_theta_moves_by_its_optimiser(name: str) -> None:
    """Twice the step size of θ makes another direction for θ, or another θ, only where it does."""
    task, start = ("minimax", "a") if name in ("ogda", "gda") else ("quadratic", "b")
    ends = []
    for rate in (0.1, 0.2):
        plan = make_plan(task, name, {"start": start})
        method, problem = plan.method, plan.task.problem
        stepper = Stepper(problem, method, SGD(problem.v.leaves, 1e-3), SGD(problem.theta.leaves, rate))
        for _ in range(2):
            stepper.step_on(Batches(inner=(None,) * method.inner_batches, outer=(None,) * method.outer_batches))
        ends.append(problem.point.theta[0])
    assert method.moves_theta == (not torch.equal(*ends))


def test_the_costs_of_the_page_can_be_computed() -> None:
    assert _value("(2(T + 1) + L/p)(Q + 1)", {"T": 2, "L": 3, "p": 2, "Q": 1}) == 15
    assert math.isclose(_value("T + min(K, T)", {"T": 2, "K": 5}), 4)
