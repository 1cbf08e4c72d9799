"""Batches against single runs, divergence, and what survives a kill."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import SGD

from bome.core.trees import Pair
from bome.data import Constant, Data
from bome.loop import run
from bome.methods import Batched, Method
from bome.problem import Problem
from bome.projections import box
from bome.runs import batch, schedule
from bome.runs.batch import group
from bome.runs.directory import DIVERGED, FINISHED
from bome.runs.jobs import Job, Outcome, Outcomes, Stock
from bome.runs.plan import plan
from bome.runs.schedule import run_jobs
from bome.stopping import MaxSteps
from bome.tasks import Task, hyperclean, hyperclean_digits, splits
from bome.tasks.softmax import Samples
from tests.support.sweeps import SHORT, TASK, comparable, jobs_of, mtimes


def test_the_losses_of_a_stack_are_those_of_each_run() -> None:
    tasks = [hyperclean_digits(seed=seed) for seed in (0, 1, 0)]
    assert tasks[0].stack is not None
    stack = tasks[0].stack(tasks)
    inner, outer = stack.data.inner.next(), stack.data.outer.next()
    with torch.no_grad():
        v = stack.problem.v.leaves[0]
        v.copy_(torch.rand(v.shape, generator=torch.Generator().manual_seed(1)))
    stacked = [stack.problem.v.leaves[0].requires_grad_(), *(x.requires_grad_() for x in stack.problem.theta.leaves)]
    theta = stack.problem.theta.seen(tuple(stacked[1:]))
    for which, drawn in (("inner", inner), ("outer", outer)):
        total = getattr(stack.problem, which)(stacked[0], theta, drawn)
        grads = torch.autograd.grad(total, stacked, allow_unused=True)
        values = []
        for i, task in enumerate(tasks):
            split = splits.split_of(TASK, task.seed)
            own = [x.clone().requires_grad_() for leaves in stack.point(i) for x in leaves]
            samples = split.train if which == "inner" else split.validation
            value = getattr(task.problem, which)(own[0], task.problem.theta.seen(tuple(own[1:])), samples)
            values.append(value.detach())
            single = torch.autograd.grad(value, own, allow_unused=True)
            if which == "inner":
                assert grads[0] is not None
                assert torch.allclose(grads[0][i][stack.rows[i]], single[0], atol=1e-7)
                outside = torch.ones(v.shape[1], dtype=torch.bool)
                outside[stack.rows[i]] = False
                assert not grads[0][i][outside].any()
            for mine, theirs in zip(grads[1:], single[1:], strict=True):
                assert mine is not None
                assert torch.allclose(mine[i], theirs, atol=1e-6)
        assert float(total.detach()) == pytest.approx(float(torch.stack(values).sum()), rel=1e-6)


@pytest.mark.parametrize("method", ["bome", "bvfsm", "penalty", "f2sa", "meha", "itd", "aid-fp", "soba"])
def test_every_quantity_of_a_batched_run_equals_that_of_the_single_run(method: str, tmp_path: Path) -> None:
    jobs = jobs_of(method)
    together = run_jobs(jobs, tmp_path / "batch")
    alone = run_jobs(jobs, tmp_path / "single", batched=False)
    assert list(together) == jobs
    for job in jobs:
        one, other = together[job], alone[job]
        assert (one.status, one.steps, one.evaluations) == (other.status, other.steps, other.evaluations)
        assert [row["step"] for row in one.history] == [row["step"] for row in other.history] == [0, 10, 12]
        for row, reference in zip(one.history, other.history, strict=True):
            assert {"val2_loss", "test_loss", "f1", "seconds"} <= set(row)
            assert ("F" in row) == ("F" in reference)
            for name in ("val2_loss", "test_loss", *(["F"] if "F" in row else [])):
                assert row[name] == pytest.approx(reference[name], rel=1e-5)
            for name in ("val2_accuracy", "test_accuracy", "f1", "precision", "recall"):
                assert row[name] == pytest.approx(reference[name], abs=0.6)  # one sample on the edge
        assert one.observed == {name: one.last[name] for name in one.observed}
        assert set(one.observed) == set(other.observed)
    different = {together[job].last["val2_loss"] for job in jobs}
    assert len(different) == 4, "seeds and step sizes must matter for this to tell anything"


def test_the_variables_of_a_batched_run_are_those_of_the_single_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32; with larger steps of v, rounding of q̂, a small difference of two losses, shows in v."""
    seen: list[Pair] = []

    def note(self: Task, point: Pair) -> dict[str, float]:
        seen.append(Pair(*(tuple(x.clone() for x in leaves) for leaves in point)))
        return {}

    monkeypatch.setattr(Task, "observe_afresh", note)
    jobs = [replace(job, resolve=True) for job in jobs_of(axes={"outer_lr": [1.0, 10.0]}, seeds=3)]
    run_jobs(jobs, tmp_path / "batch")
    run_jobs(jobs, tmp_path / "single", batched=False)
    assert len(seen) == 12
    for one, other in zip(seen[:6], seen[6:], strict=True):
        for x, y in zip(sum(one, ()), sum(other, ()), strict=True):
            assert (x - y).abs().max() < 1e-5


def test_in_float64_a_batch_of_large_steps_is_the_single_runs_too() -> None:
    rates, values = (10.0, 300.0), {"steps": 12, "inner_steps": 2}
    plans = [plan(TASK, "bome", {**values, "outer_lr": rate}, seed) for rate in rates for seed in (0, 1)]
    assert plans[0].task.stack is not None
    stack = plans[0].task.stack([made.task for made in plans])
    method = Batched(plans[0].method, own_data=stack.dims, v_scale=tuple(m.settings.outer_lr / 10 for m in plans))
    together = _end(stack.problem, stack.data, method, 10.0)
    for i, made in enumerate(plans):
        assert made.task.streams is not None
        data = made.task.streams(made.method, made.settings)
        v, theta = _end(made.task.problem, data, made.method, made.settings.outer_lr)
        # The scaling of the pixels is known in float32 only, and enters a batch in another place.
        assert (together.v[0][i][stack.rows[i]] - v[0]).abs().max() < 1e-7
        assert max(float((x[i] - y).abs().max()) for x, y in zip(together.theta, theta, strict=True)) < 1e-7


def _end(problem: Problem, data: Data, method: Method, outer_lr: float) -> Pair:
    """Where 12 steps in float64 lead."""
    theta = dict(zip(problem.theta.keys, (x.detach().double() for x in problem.theta.leaves), strict=True))
    exact = Problem(problem.outer, problem.inner, problem.v.leaves[0].detach().double(), theta, project_v=box(0, 1))
    run(
        exact,
        method,
        outer_opt=SGD(exact.v.leaves, outer_lr, momentum=0.9),
        inner_opt=SGD(exact.theta.leaves, 0.01, momentum=0.9),
        data=Data(outer=Constant(_doubled(data.outer.next())), inner=Constant(_doubled(data.inner.next()))),
        stop=MaxSteps(12),
        oracle="func" if isinstance(method, Batched) else "autograd",
    )
    return exact.point


def _doubled(samples: Samples) -> Samples:
    given = samples._asdict().items()
    return samples._replace(**{key: x.double() for key, x in given if x is not None and x.is_floating_point()})


def test_the_seconds_of_a_batch_are_shared_among_its_runs(tmp_path: Path) -> None:
    outcomes = list(run_jobs(jobs_of(), tmp_path).values())
    assert len({outcome.seconds for outcome in outcomes}) == 1
    assert outcomes[0].last["seconds"] == pytest.approx(outcomes[0].seconds)
    assert 0 < outcomes[0].seconds < 5


def test_a_wide_grid_is_cut_into_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    real = batch.run_batch

    def note(jobs: Sequence[Job], *rest: Any) -> None:
        widths.append(len(jobs))
        real(jobs, *rest)

    monkeypatch.setattr(batch, "WIDEST", 3)
    monkeypatch.setattr(schedule, "run_batch", note)
    axes = {"outer_lr": [1.0, 2.0, 4.0, 8.0], "inner_steps": [1, 2]}
    outcomes = run_jobs(jobs_of(values={"steps": 2}, axes=axes, seeds=1), tmp_path)
    assert sorted(widths) == [2, 2, 2, 2]
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 8


@pytest.mark.parametrize(("sizes", "batches"), [(5, [{0}, {1}]), (4, [{0, 1}])])
def test_many_runs_of_one_seed_are_a_batch_of_their_own(sizes: int, batches: list[set[int]]) -> None:
    made = jobs_of(values={"steps": 2}, axes={"outer_lr": [1.0, 2.0, 4.0, 8.0, 16.0][:sizes]}, seeds=2)
    groups, singles = group(made, made, Outcomes(Path("none")), Stock())
    assert [{job.seed for job in some} for some in groups] == batches
    assert sorted(job.key for some in groups for job in some) == sorted(job.key for job in made)
    assert singles == []


@pytest.mark.parametrize(
    ("method", "values", "axes"),
    [
        ("bome", {**SHORT, "batch": 100}, None),
        ("bome", {**SHORT, "decay": 5.0}, None),
        ("bome:auto", SHORT, None),
        ("bome:preconditioned", SHORT, None),
        ("aid-cg", SHORT, None),
        ("gda", {"steps": 2}, {}),
        ("bome", SHORT, {"theta_lr": [0.01, 0.02]}),
    ],
)
def test_what_would_not_be_the_same_in_a_batch_goes_alone(
    method: str, values: dict[str, Any], axes: dict[str, Any] | None
) -> None:
    made = jobs_of(method, values, axes, seeds=1 if axes else 2)
    groups, singles = group(made, made, Outcomes(Path("none")), Stock())
    assert groups == []
    assert singles == made


@pytest.fixture
def exploding(monkeypatch: pytest.MonkeyPatch) -> None:
    """θ_0 of seed 1 is enormous; inner steps of size 3,000 make 0.001‖W‖², and θ with it, grow 5-fold in each."""
    real = hyperclean._pretrain

    def enormous(name: str, told: Any, split: Any, seed: int) -> Any:
        model = real(name, told, split, seed)
        return {key: 1e12 * x for key, x in model.items()} if seed == 1 else model

    monkeypatch.setattr(hyperclean, "_pretrain", enormous)


GROWING: dict[str, Any] = {"steps": 18, "inner_steps": 1, "inner_lr": 3000.0, "inner_momentum": 0.0}


@pytest.mark.usefixtures("exploding")
def test_a_diverging_run_is_masked_reported_with_its_step_and_leaves_the_others_alone(tmp_path: Path) -> None:
    jobs = jobs_of("bsg1", GROWING)
    together = run_jobs([replace(job, log_every=1) for job in jobs], tmp_path / "batch")
    alone = run_jobs([replace(job, log_every=1) for job in jobs], tmp_path / "single", batched=False)
    for job, one in together.items():
        other = alone[job]
        assert one.status == other.status == (DIVERGED if job.seed == 1 else FINISHED)
        assert one.steps == other.steps
        if job.seed == 1:
            assert 0 < one.steps < 18
            assert one.reason.startswith(f"step {one.steps}: ")
            assert other.reason.startswith(f"step {one.steps}: ")
            assert one.last["step"] <= one.steps
        else:
            assert one.last["val2_loss"] == pytest.approx(other.last["val2_loss"], rel=1e-4)


@pytest.mark.usefixtures("exploding")
def test_a_batch_ends_when_all_of_its_runs_are_dead(tmp_path: Path) -> None:
    jobs = [job for job in jobs_of("bsg1", {**GROWING, "steps": 100_000}) if job.seed == 1]
    start = time.monotonic()
    outcomes = run_jobs(jobs, tmp_path)
    assert [outcome.status for outcome in outcomes.values()] == [DIVERGED] * 2
    assert all(0 < outcome.steps < 18 for outcome in outcomes.values())
    assert time.monotonic() - start < 20


def test_a_batch_killed_while_it_stored_its_outcomes_stores_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, real, steps = jobs_of(), Outcomes.write, []
    whole = run_jobs(jobs, tmp_path / "whole")

    def dying(self: Outcomes, outcome: Outcome) -> None:
        if outcome.job == jobs[2]:
            raise KeyboardInterrupt
        real(self, outcome)

    monkeypatch.setattr(Outcomes, "write", dying)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, tmp_path / "parts")
    before = mtimes(tmp_path / "parts")
    assert len(before) == 2
    monkeypatch.setattr(Outcomes, "write", real)
    step = batch._Watched.step

    def counted(*rest: Any) -> Any:
        steps.append(1)
        return step(*rest)

    monkeypatch.setattr(batch._Watched, "step", counted)
    after = run_jobs(jobs, tmp_path / "parts")
    assert steps == []  # all of its steps were done
    assert {name: when for name, when in mtimes(tmp_path / "parts").items() if name in before} == before
    assert all(repr(comparable(after[job])) == repr(comparable(whole[job])) for job in jobs)
    assert not list((tmp_path / "parts" / "at_work").iterdir())


def test_what_the_v_of_each_run_is_worth_is_that_of_the_single_run(tmp_path: Path) -> None:
    """With T = 10 a refit costs less than a fifth of a run; the task that the runs share stays at its start."""
    jobs = jobs_of(values={"inner_steps": 10, "steps": 30}, axes={"outer_lr": [1.0, 10.0]}, seeds=1)
    together = run_jobs(jobs, tmp_path / "batch")
    alone = run_jobs(jobs, tmp_path / "single", batched=False)
    ends = [(together[job].last["F"], alone[job].last["F"]) for job in jobs]
    assert len({one for one, _ in ends}) == len(jobs)
    assert [one for one, _ in ends] == pytest.approx([other for _, other in ends], rel=1e-4)
