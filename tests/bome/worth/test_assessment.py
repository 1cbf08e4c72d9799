"""What follows a run: when θ is trained anew, for how long, and what is said where it is not."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR

from bome import (
    BOME,
    Data,
    GradientDescent,
    MaxSteps,
    Minibatches,
    PerSample,
    Problem,
    Record,
    RowSGD,
    Solver,
    Start,
    box,
    refit,
    run,
)  # fmt: skip
from bome.errors import ProblemError
from bome.inner import TorchOptim
from bome.methods import BOMEZ, ITD, SOBA, Batched, Method, Probe
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.tasks import quadratic
from bome.worth.assessment import Assessment

GD = GradientDescent(0.1, 10)


def _run(method: Method, steps: int = 40, **options: Any) -> Any:
    problem = quadratic(start="b").problem
    outer_opt, inner_opt = SGD(problem.v.leaves, 0.05), SGD(problem.theta.leaves, 0.1)
    return problem, run(problem, method, outer_opt=outer_opt, inner_opt=inner_opt, stop=MaxSteps(steps), **options)


@pytest.mark.parametrize("method", [BOME(GD), BOMEZ(GD), Probe(GD, episode=3, sides="both")])
def test_a_run_says_what_a_refit_says_afterwards(method: Method) -> None:
    start = Start(quadratic(start="b").problem)
    problem, result = _run(method)
    training = GD.with_steps(method.theta_steps(40))
    last = refit(problem, training, start=start)
    start.write_all(problem)
    found = last.beside(refit(problem, training, start=start))
    assert replace(found, f=0) == replace(result.refit, f=0)
    assert result.worth == str(result.refit)
    assert result.history.rows[-1]["F"] == found.F
    assert "F" not in result.history.rows[0]
    assert found.evaluations == {"f": 8, "g": 2 * (4 + method.theta_steps(40))}
    counts = {kind: result.evaluations[kind] for kind in ("f", "g")}
    assert counts == _run(method, refit=False)[1].evaluations  # those of the refit are not among them


def test_as_many_steps_as_theta_made_since_its_start() -> None:
    assert BOME(GD).theta_steps(40) == 40
    assert ITD(GD).theta_steps(40) == Probe(GD).theta_steps(40) == Batched(Probe(GD)).theta_steps(40) == 400
    assert Probe(GD, episode=3).theta_steps(40) == 30
    assert Probe(GD, episode=3).theta_steps(2) == 20


def test_it_is_done_unasked_where_it_costs_at_most_a_fifth() -> None:
    """BOME with T inner steps evaluates T + 2 times a step, and θ trained anew takes 1 a step, and 8 to look."""
    assert _run(BOME(GradientDescent(0.1, 4)), 40)[1].refit is not None  # 48 of 240
    for method, cost, spent in ((BOME(GradientDescent(0.1, 3)), 48, 200), (ITD(GD), 408, 1240), (SOBA(), 48, 160)):
        result = _run(method)[1]
        assert result.refit is None
        assert result.worth.startswith(f"F(v) is not measured: it takes {cost} evaluations, more than a fifth of the")
        assert f"run's {spent:,}; run(..., refit=True) measures it" in result.worth
        assert "F" not in result.history.rows[-1]
        asked = _run(method, refit=True)[1]
        assert asked.refit.evaluations == {"f": 4, "g": cost - 4}


def test_the_steps_can_be_told_and_nothing_be_done() -> None:
    assert _run(SOBA(), refit=GradientDescent(0.1, 7))[1].refit.steps == 7
    _, result = _run(BOME(GD), refit=False)
    assert (result.refit, result.worth) == (None, "F(v) is not measured: the run has refit=False")
    assert not any(key.startswith("start") for key in result.state)


def test_without_an_inner_map_theta_moves_as_its_optimiser_moved_it_first() -> None:
    """A schedule that has ended at 0 does not count."""
    problem, start = quadratic(start="b").problem, Start(quadratic(start="b").problem)
    outer_opt, inner_opt = SGD(problem.v.leaves, 0.05), SGD(problem.theta.leaves, 0.1)
    falling = [LambdaLR(inner_opt, lambda k: max(0.0, 1 - k / 20))]
    options: Any = {"outer_opt": outer_opt, "inner_opt": inner_opt, "schedulers": falling, "stop": MaxSteps(20)}
    result = run(problem, SOBA(), **options, refit=True)
    assert result.refit == refit(problem, GradientDescent(0.1, 20), start=start)
    assert result.refit.F_first is None  # both would cost more than a fifth


def test_a_solver_and_l_bfgs_are_priced_as_they_were_in_the_run() -> None:
    solver = Solver(lambda v, theta, batch: v)

    def made(inner: Any) -> Any:
        v, theta = torch.tensor(1.0), torch.tensor(0.0)
        problem = Problem(lambda v, t, b: (t - 2) ** 2, lambda v, t, b: (t - v) ** 2, v, theta)
        return run(
            problem,
            BOME(inner),
            outer_opt=SGD([v], 0.1),
            inner_opt=SGD([theta], 0.1),
            stop=MaxSteps(30),
            oracle="autograd",
        )

    assert pytest.approx(made(solver).v.sub(2).square().item()) == made(solver).refit.F
    lbfgs = made(TorchOptim(lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3), 1))
    assert lbfgs.refit is None
    assert "more than a fifth" in lbfgs.worth


def test_f_can_be_judged_on_data_that_v_does_not_see() -> None:
    def made(**options: Any) -> Any:
        v, theta, y = torch.tensor(0.5), torch.tensor(0.0), torch.arange(8.0)
        problem = Problem(lambda v, t, b: (t - b.data[0].mean()).square(), lambda v, t, b: (t - v).square(), v, theta)
        data = Data(outer=Minibatches((y,), 4))
        result = run(
            problem,
            BOME(GradientDescent(0.5, 1)),
            outer_opt=SGD([v], 0.0),
            inner_opt=SGD([theta], 0.0),
            data=data,
            **options,
        )
        return result, data

    held_out = Minibatches((torch.full((4,), 9.0),), 2)
    result, data = made(judge_on=held_out, stop=MaxSteps(3))
    assert pytest.approx(8.5**2) == result.refit.F
    assert result.refit.f == 81
    assert str(held_out.state_dict()) == str(Minibatches((torch.full((4,), 9.0),), 2).state_dict())
    assert str(data.state_dict()["outer"]) != str(held_out.state_dict())
    with pytest.raises(ProblemError, match=r"judge_on needs F\(v\), but there is refit=False"):
        made(judge_on=held_out, refit=False)


def test_what_cannot_be_judged_is_said_and_refused_where_it_was_asked_for() -> None:
    theta = torch.tensor(0.5)
    without = Problem(lambda v, t, b: t.square(), lambda v, t, b: (t - 1).square(), theta=theta)
    assert run(without, BOME(GD), inner_opt=SGD([theta], 0.1), stop=MaxSteps(2)).worth.endswith("there is no v")
    with pytest.raises(ProblemError, match="there is no v; leave refit out"):
        Assessment(without, True)
    bound = Problem(
        lambda v, t, b: t,
        lambda v, t, b: t,
        torch.zeros(()),
        torch.zeros(()),
        inner_constraints=lambda v, t, b: t[None],
    )
    with pytest.raises(ProblemError, match=r"bome\.solve gives F"):
        Assessment(bound, GD)
    with pytest.raises(ProblemError, match=r"bome\.solve gives F"):
        refit(bound, GD)
    with pytest.raises(ProblemError, match="inner must be an inner map"):
        Assessment(quadratic().problem, 3)  # type: ignore[arg-type]


def test_a_resumed_run_starts_theta_where_the_first_one_did(tmp_path: Any) -> None:
    """Though the problem it is given stands elsewhere."""

    def made(steps: int, shift: float, record: Record | None = None) -> Any:
        problem = quadratic(start="b").problem
        problem.theta.leaves[0].data.add_(shift)
        opts: Any = {"outer_opt": Adam(problem.v.leaves, 0.05), "inner_opt": SGD(problem.theta.leaves, 0.1)}
        return run(problem, BOME(GD), **opts, stop=MaxSteps(steps), record=record)

    made(5, 0.0, Record(tmp_path))
    assert made(9, 3.0, Record(tmp_path, resume=True)).refit == made(9, 0.0).refit


def _past(theta_0: float = 0.0, **options: Any) -> Any:
    """v is drawn to 5, and judged by a θ that shall be 1."""
    v, theta = torch.tensor(0.0), torch.tensor(theta_0)
    problem = Problem(
        lambda v, t, goal: (t - (5.0 if goal is None else goal)).square(), lambda v, t, b: (t - v).square(), v, theta
    )
    opts: Any = {"outer_opt": SGD([v], 0.015, momentum=0.5), "inner_opt": SGD([theta], 0.1)}
    return run(problem, BOME(GradientDescent(0.2, 3)), **opts, **options)


def test_the_v_of_the_lowest_f_is_kept_with_the_theta_that_was_trained_with_it() -> None:
    training = GradientDescent(0.5, 1)  # θ = v after one step
    ends = {k: float(_past(stop=MaxSteps(k)).v) if k else 0.0 for k in (0, 8, 16, 24, 32, 40, 48, 53)}
    result = _past(stop=MaxSteps(53), refit=training, judge_on=1.0, keep_best=True)
    assert {k: found.F for k, found in result.refits.items()} == pytest.approx(
        {k: (v - 1) ** 2 for k, v in ends.items()}
    )
    best = min(ends, key=lambda k: (ends[k] - 1) ** 2)
    assert best not in (0, 53)
    assert float(result.v) == float(result.theta) == ends[best]
    assert result.refit == result.refits[best]
    assert result.history.rows[-1]["F"] == result.refit.F
    assert result.f == pytest.approx((ends[best] - 5) ** 2)
    assert result.worth.startswith(f"of 8 v, F(v) is lowest after step {best} of 53; θ is trained with it\nF(v) = ")
    assert float(result.state["v"][0]) == ends[53]  # the run itself can go on
    assert result.evaluations == _past(stop=MaxSteps(53), refit=False).evaluations


def test_live_f_is_that_of_the_time() -> None:
    result = _past(stop=MaxSteps(16), refit=GradientDescent(0.5, 1), keep_best=True, log_every=1)
    for k, found in result.refits.items():
        assert found.f == pytest.approx(result.history.rows[k]["f"] if k < 16 else found.f)
    assert result.refits[0].f == 25


def test_the_last_v_stays_where_none_is_better() -> None:
    result = _past(0.5, stop=MaxSteps(9), refit=GradientDescent(1e9, 60), keep_best=True)
    assert {found.F for found in result.refits.values()} == {float("inf")}
    assert float(result.v) == float(_past(0.5, stop=MaxSteps(9)).v)
    with pytest.raises(ProblemError, match=r"keep_best needs F\(v\), but there is refit=False"):
        _past(refit=False, keep_best=True)


@pytest.mark.parametrize("at", [1, 7, 16])
def test_a_resumed_run_keeps_the_same_v_bit_for_bit(tmp_path: Any, at: int) -> None:
    options: Any = {"refit": GradientDescent(0.3, 4), "judge_on": 1.0, "keep_best": True}
    straight = _past(stop=MaxSteps(21), **options)
    _past(stop=MaxSteps(at), record=Record(tmp_path), **options)
    found = _past(stop=MaxSteps(21), record=Record(tmp_path, resume=True), **options)
    assert found.refits == straight.refits
    assert torch.equal(found.v, straight.v)
    assert torch.equal(found.theta, straight.theta)
    assert found.state["candidates"] == straight.state["candidates"]


def test_running_statistics_and_generators_do_not_go_on_from_one_v_to_the_next() -> None:
    """Equal v have equal F, though there is dropout, and batch normalisation is what f sees."""
    torch.manual_seed(0)
    x, net, v = (
        torch.randn(16, 3),
        nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 1)),
        torch.tensor(0.1),
    )

    def outer(v: Any, net: Any, batch: Any) -> Any:
        return (net[0].running_mean.square().sum() + net(x).square().mean()) + 0 * v

    problem = Problem(outer, lambda v, n, b: (n(x + 1) - v).square().mean(), v, net)
    options: Any = {"outer_opt": SGD([v], 1e-30), "inner_opt": SGD(net.parameters(), 0.1), "stop": MaxSteps(6)}
    result = run(problem, BOME(GD), **options, refit=GradientDescent(0.1, 5), keep_best=True)
    assert len({found.F for found in result.refits.values()}) == 1


def test_rows_whose_steps_are_put_off_are_kept_as_they_would_be() -> None:
    """With momentum, rows move on in steps that do not see them."""

    def made(steps: int, **options: Any) -> Any:
        y, table, theta = torch.arange(6.0), PerSample(6, 1.0), torch.tensor(9.0)

        def inner(w: Any, t: Any, batch: Any) -> Any:
            return 0.25 * (w * (t - batch.data[0]).square()).sum()

        problem = Problem(lambda w, t, b: t.square(), inner, table, theta)
        opts: Any = {"outer_opt": RowSGD([table.values], 0.01, momentum=0.9), "inner_opt": SGD([theta], 0.1)}
        data = Data(inner=Minibatches((y,), 2, seed=3))
        result = run(problem, BOME(GradientDescent(0.1, 2)), **opts, data=data, stop=MaxSteps(steps), **options)
        return result, table.values

    result, _ = made(8, refit=GradientDescent(0.1, 2), keep_best=True)
    for step, _, (v,) in ((c["step"], c["f"], c["v"]) for c in map(_named, result.state["candidates"]["kept"])):
        if step:
            torch.testing.assert_close(v, made(step)[1])


def _named(kept: list[Any]) -> dict[str, Any]:
    return dict(zip(("step", "f", "v"), kept, strict=True))


def test_a_run_that_switches_g_off_is_told_and_one_that_does_not_is_not() -> None:
    """f wants θ = 2. With g = v(θ − 1)² BOME gets there by v → 0, and the first v gives 1. With g = (θ − v)², v → 2."""

    def made(inner: Any) -> Any:
        v, theta = torch.tensor(1.0), torch.tensor(0.0)
        problem = Problem(lambda v, t, b: (t - 2).square(), inner, v, theta, box(0, 4))
        opts: Any = {"outer_opt": SGD([v], 1.0), "inner_opt": SGD([theta], 0.1)}
        return run(problem, BOME(GD, eta=0.5), **opts, stop=MaxSteps(200)).refit

    off, on = made(lambda v, t, b: v * (t - 1).square()), made(lambda v, t, b: (t - v).square())
    assert off.f < 0.01
    assert off.F > 3.9
    assert off.F_first == pytest.approx(1.0)
    for text in ("f = ", "v is worth no more than the first one, whose F is 1", "v has switched g off"):
        assert any(warning.startswith(text) for warning in off.warnings), text
    assert pytest.approx(0.0, abs=1e-3) == on.F
    assert on.warnings == ()


@pytest.mark.parametrize("task", ["coreset", "quadratic", "sine"])
@pytest.mark.parametrize("method", ["bome", "bome-z", "probe:young"])
def test_there_is_nothing_to_warn_of_on_the_toys(task: str, method: str) -> None:
    found = perform(plan(task, method, {"steps": 200, "inner_steps": 10})).refit
    assert found is not None
    assert found.F_first is not None
    assert [text for text in found.warnings if not text.startswith("θ was still on its way")] == []
