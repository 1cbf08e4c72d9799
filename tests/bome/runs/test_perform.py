"""Performing a plan: what is logged and observed on the way, and the same bits from every way to run."""

from dataclasses import replace
from itertools import count

import pytest
import torch

from bome.core.seeds import seed_everything
from bome.runs.perform import SMALL, default_log_every, perform
from bome.runs.plan import Plan, plan


def short(task: str = "lls", **values: object) -> Plan:
    return plan(task, "bome", {"steps": 6, **values})


def test_a_history_has_about_500_rows() -> None:
    assert [default_log_every(steps) for steps in (1, 499, 1000, 50_000)] == [1, 1, 2, 100]
    assert [row["step"] for row in perform(short(), log_every=3).history.rows] == [0, 3, 6]


def test_small_variables_and_the_distance_to_the_solution_are_logged() -> None:
    """The solution of lls is v = 1, θ = (1, 1)."""
    job = short()
    last = perform(job).history.rows[-1]
    (v,), (theta,) = job.task.problem.point
    assert [last["v_0"], last["theta_0"], last["theta_1"]] == [v.item(), *theta.tolist()]
    by_hand = torch.linalg.vector_norm(torch.cat([v.reshape(1), theta]) - 1).item()
    assert last["distance_to_optimum"] == pytest.approx(by_hand)


def test_large_variables_are_not_logged() -> None:
    job = short("hyperclean-digits", steps=1)
    assert job.task.problem.point.v[0].numel() > SMALL
    assert not [key for key in perform(job).history.rows[-1] if key.startswith(("v_", "theta_"))]


def test_what_the_task_shows_is_observed_once_for_each_row() -> None:
    job, calls = short(), count(1)
    shows = replace(job.task, observe=lambda point: {"seen": float(next(calls))})
    result = perform(replace(job, task=shows), log_every=3)
    assert [row["seen"] for row in result.history.rows] == [1.0, 2.0, 3.0]
    assert result.observed == {"seen": 3.0}


def test_a_seed_gives_the_same_bits_again() -> None:
    ends = []
    for _ in range(2):
        job = plan("hyperclean-digits", "bome", {"steps": 3, "batch": 32}, 4)
        seed_everything(4)
        perform(job)
        ends.append([x.clone() for leaves in job.task.problem.point for x in leaves])
    assert all(torch.equal(x, y) for x, y in zip(*ends, strict=True))
