"""Searches that are interrupted, resumed, recorded, hurried, and done side by side."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import bome
from bome import Problem, ProblemError, Record, Solution, box
from bome.nested.session import Session, Terms
from bome.nested.value import Memory, Start
from bome.stopping import Progress
from tests.support.nested import quadratic, two_wells, vector


def wavy(constrained: bool = False) -> Problem:
    """g with several minima in θ for each v."""

    def outer(v: Tensor, y: Tensor, batch: Any) -> Tensor:
        return ((v - 0.3) ** 2).sum() + (y * torch.tensor([1.0, -0.5], dtype=y.dtype)).sum()

    def inner(v: Tensor, y: Tensor, batch: Any) -> Tensor:
        return (y**4 - y**2 + 0.3 * v * y).sum()

    v, theta = torch.tensor([0.9], dtype=torch.float64), torch.tensor([0.4, 0.2], dtype=torch.float64)
    if constrained:
        return Problem(
            outer, inner, v, theta, inner_constraints=lambda v, y, b: torch.cat([y - 1, -1 - y, v - 2, -2 - v])
        )
    return Problem(outer, inner, v, theta, box(-1, 1), box(-1, 1))


def outcome(solution: Solution) -> dict[str, Any]:
    """All that must be equal."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in solution.history.rows]
    return {
        "f": solution.f,
        "v": solution.v.tolist(),
        "theta": solution.theta.tolist(),
        "rows": rows,
        "spent": solution.spent,
        "evaluations": solution.evaluations,
        "verdict": solution.certificate.verdict,
        "runs": solution.runs,
        "found": [(each.f, each.runs) for each in solution.found],
    }


@pytest.mark.parametrize("constrained", [False, True])
def test_a_resumed_search_is_that_without_interruption_bit_for_bit(constrained: bool, tmp_path: Path) -> None:
    whole = bome.solve(wavy(constrained), budget=1200)

    def interrupt(progress: Progress) -> None:
        if progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    first = bome.solve(wavy(constrained), budget=1200, record=Record(tmp_path), progress=interrupt)
    assert first.status == "interrupted by SIGINT"
    assert first.steps == 5
    with pytest.raises(ProblemError, match="holds another run"):
        bome.solve(wavy(constrained), record=Record(tmp_path))
    second = bome.solve(wavy(constrained), budget=1200, record=Record(tmp_path, resume=True))
    assert outcome(second) == outcome(whole)


def test_jobs_side_by_side_give_the_result_of_one_after_the_other() -> None:
    alone, together = (bome.solve(wavy(), budget=1200, jobs=jobs) for jobs in (1, 2))
    first, second = outcome(alone), outcome(together)
    del first["rows"], second["rows"]
    assert first == second


def test_a_larger_budget_keeps_more_for_the_verdict() -> None:
    assert [Terms(budget).verdict for budget in (1_000, 5_000, 6_000, 50_000)] == [200, 600, 600, 5_000]


def test_an_interrupted_search_has_an_answer_and_a_verdict() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    solution = bome.solve(wavy(), progress=interrupt)
    assert solution.steps == 3
    assert solution.certificate.tests


def test_seconds_end_a_search() -> None:
    solution = bome.solve(wavy(), budget=10**9, seconds=0.5)
    assert solution.status == "0.5 seconds spent"
    assert solution.seconds < 1.5


def test_runs_end_a_search() -> None:
    solution = bome.solve(quadratic(), runs=1)
    assert (solution.status, solution.runs) == ("1 runs done", 1)


def test_one_more_run_goes_on_from_where_it_is_told() -> None:
    """Until the evaluations that it was allowed are spent."""
    session = Session(two_wells(), Terms(10_000))
    v, theta = vector(1.0), vector(-1.03)
    value = session.search.continuation.value.at(v, theta, 100.0, Memory((Start(theta),), (Start(theta),)))
    run = session.onward(value)
    assert run.ended is not None
    assert float(run.found[-1].v) == pytest.approx(0.5156, abs=0.01)
    session.allow(session.losses.meter.total + 30)
    assert session.onward(value).ended is None
