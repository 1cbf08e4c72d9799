"""Races that are interrupted, resumed, recorded and hurried."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import bome
from bome import Data, Minibatches, Problem, ProblemError, Record, Trained
from bome.stopping import Progress
from tests.support.arms import penalties


def outcome(result: Trained) -> dict[str, Any]:
    """All that must be equal."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in result.history.rows]
    point = [x.tolist() for x in (*_leaves(result.v), *_leaves(result.theta))]
    return {
        "point": point, "rows": rows, "arms": result.arms, "spent": result.spent, "counts": result.evaluations,
        "arm": result.arm, "tuned": result.tuned, "verdict": result.certificate.verdict,
    }  # fmt: skip


def _leaves(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value.state_dict().values())


def noisy() -> tuple[Problem, Data]:
    """A module with dropout and running statistics."""
    torch.manual_seed(0)
    x, y = torch.randn(24, 4), torch.randn(24, 2)
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 2))

    def inner(v: torch.Tensor, net: nn.Module, batch: Any) -> torch.Tensor:
        miss: torch.Tensor = (net(batch.data[0]) - batch.data[1]).square().mean()
        return miss + v.exp() * torch.stack([p.square().sum() for p in net.parameters()]).sum()

    def outer(v: torch.Tensor, net: nn.Module, batch: Any) -> torch.Tensor:
        miss: torch.Tensor = (net(batch.data[0]) - batch.data[1]).square().mean()
        return miss

    streams = Data(outer=Minibatches((x, y), 6), inner=Minibatches((x, y), 6))
    return Problem(outer, inner, torch.tensor(-3.0), net), streams


@pytest.mark.parametrize("make", [penalties, noisy])
@pytest.mark.parametrize("at", [1, 7, 17])
def test_a_resumed_race_is_that_without_interruption_bit_for_bit(make: Any, at: int, tmp_path: Path) -> None:
    problem, data = make()
    whole = bome.solve(problem, data=data, budget=1000, horizon=30)

    def interrupt(progress: Progress) -> None:
        if progress.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    problem, data = make()
    first = bome.solve(problem, data=data, budget=1000, horizon=30, record=Record(tmp_path), progress=interrupt)
    assert (first.status, first.steps) == ("interrupted by SIGINT", at)
    with pytest.raises(ProblemError, match="holds another run"):
        bome.solve(problem, data=data, budget=1000, record=Record(tmp_path))
    problem, data = make()
    torch.manual_seed(5)
    again = bome.solve(problem, data=data, budget=1000, horizon=30, record=Record(tmp_path, resume=True))
    assert outcome(again) == outcome(whole)
    assert again.status == "the budget of 1000 evaluations allows no more"


def test_an_interrupted_race_leaves_the_best_measured_so_far() -> None:
    problem, data = penalties()

    def interrupt(progress: Progress) -> None:
        if progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    result = bome.solve(problem, data=data, budget=3000, progress=interrupt)
    assert result.arm == "start"
    assert problem.point.v[0].tolist() == [-3.0] * 6
    assert float(problem.point.theta[0].norm()) > 0.5  # trained with it
    assert list(result.arms) == ["start"]


def test_seconds_end_a_race() -> None:
    problem, data = penalties()
    result = bome.solve(problem, data=data, budget=10**9, horizon=50, seconds=0.7)
    assert result.status == "0.7 seconds spent"
    assert result.f <= result.arms["start"].F
    assert result.seconds < 3
    with pytest.raises(ProblemError, match="before the first v was judged"):
        bome.solve(problem, data=data, seconds=1e-6)


def test_what_is_given_back() -> None:
    problem, data = penalties()
    told: list[Progress] = []
    result = bome.solve(problem, data=data, budget=2000, progress=told.append)
    assert result.v is problem.v.value
    assert set(result.tuned) == {"alpha", "T", "reach", "lr of v, young", "lr of v, old", "horizon"}
    assert (result.tuned["horizon"], result.tuned["T"]) == (100, 10)
    assert result.tuned["lr of v, old"] == pytest.approx(0.09)
    assert result.f == result.certificate.f == result.arms[result.arm].F
    assert sum(result.evaluations.values()) == sum(result.spent.values()) == told[-1].evaluations
    assert [row["arm"] for row in result.history.rows if "F" in row] == list(result.arms)
    assert [row["step"] for row in result.history.rows] == list(range(len(result.history)))


def test_ctrl_c_before_the_first_v_is_judged_is_no_matter_of_the_budget() -> None:
    problem, data = penalties()
    seen: list[int] = []

    def outer(v: Any, theta: Any, batch: Any) -> torch.Tensor:
        if not seen:
            seen.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        value: torch.Tensor = whole(v, theta, batch)
        return value

    whole, problem.outer = problem.outer, outer
    with pytest.raises(KeyboardInterrupt):
        bome.solve(problem, data=data, budget=1000, horizon=30)
