"""Sweeps: batches against single runs, divergence, and what survives a kill."""

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import SGD

from bome.core.trees import Pair
from bome.data import Constant, Data
from bome.errors import ProblemError, RunInterruptedError, StorageError
from bome.loop import run
from bome.methods import Batched, Method
from bome.problem import Problem
from bome.projections import box
from bome.runs import sweep
from bome.runs.directory import DIVERGED, FINISHED
from bome.runs.perform import solve
from bome.runs.plan import plan
from bome.runs.sweep import FAILED, Job, Outcome, carry_out, grid, mean_and_error, prepare, ranked
from bome.stopping import MaxSteps
from bome.tasks import Task, hyperclean, hyperclean_digits, splits
from bome.tasks.softmax import Samples

TASK = "hyperclean-digits"
SHORT: dict[str, Any] = {"steps": 12, "inner_steps": 2}


def jobs_of(
    method: str = "bome", values: dict[str, Any] | None = None, axes: dict[str, Any] | None = None, seeds: int = 2
) -> list[Job]:
    return grid(TASK, method, values or SHORT, axes if axes is not None else {"outer_lr": [10.0, 300.0]}, seeds)


def comparable(outcome: Outcome) -> list[dict[str, Any]]:
    """The history without what depends on the clock."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in outcome.history]


def mtimes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "done").glob("*.json")}


# --- the grid ---------------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_with_every_seed_once() -> None:
    made = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5], "inner_steps": [1, 2, 3]}, 2)
    assert len(made) == len(set(made)) == len({job.key for job in made}) == 12
    assert {(dict(job.values)["eta"], dict(job.values)["inner_steps"], job.seed) for job in made} == {
        (eta, t, seed) for eta in (0.1, 0.5) for t in (1, 2, 3) for seed in (0, 1)
    }
    assert all(dict(job.values)["steps"] == 3 for job in made)


def test_the_name_of_a_job_depends_on_everything_that_decides_its_result() -> None:
    job = Job("lls", "bome", (("eta", 0.5),), 0)
    others = [
        replace(job, task="sine"), replace(job, method="pbgd"), replace(job, values=(("eta", 0.25),)),
        replace(job, seed=1), replace(job, log_every=5), replace(job, resolve=True),
    ]  # fmt: skip
    assert len({each.key for each in (job, *others)}) == 7
    assert job.key == Job("lls", "bome", (("eta", 0.5),), 0).key


@pytest.mark.parametrize("seeds", [0, -1, 1.5])
def test_a_grid_without_seeds_is_refused(seeds: Any) -> None:
    with pytest.raises(ProblemError, match="seeds must be a whole number of at least 1"):
        grid("lls", "bome", {}, {}, seeds)


def test_a_setting_that_is_swept_cannot_be_fixed_too() -> None:
    with pytest.raises(ProblemError, match="eta is given both as a setting and in the grid"):
        grid("lls", "bome", {"eta": 0.5}, {"eta": [0.1]}, 1)


# --- batches ----------------------------------------------------------------------------------------------------------


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
    for which, batch in (("inner", inner), ("outer", outer)):
        total = getattr(stack.problem, which)(stacked[0], theta, batch)
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
    together = carry_out(jobs, tmp_path / "batch")
    alone = carry_out(jobs, tmp_path / "single", batched=False)
    assert list(together) == jobs
    for job in jobs:
        one, other = together[job], alone[job]
        assert (one.status, one.steps, one.evaluations) == (other.status, other.steps, other.evaluations)
        assert [row["step"] for row in one.history] == [row["step"] for row in other.history] == [0, 10, 12]
        for row, reference in zip(one.history, other.history, strict=True):
            assert {"val2_loss", "test_loss", "f1", "seconds"} <= set(row)
            for name in ("val2_loss", "test_loss"):
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

    monkeypatch.setattr(Task, "observed_afresh", note)
    jobs = [replace(job, resolve=True) for job in jobs_of(axes={"outer_lr": [1.0, 10.0]}, seeds=3)]
    carry_out(jobs, tmp_path / "batch")
    carry_out(jobs, tmp_path / "single", batched=False)
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
    outcomes = list(carry_out(jobs_of(), tmp_path).values())
    assert len({outcome.seconds for outcome in outcomes}) == 1
    assert outcomes[0].last["seconds"] == pytest.approx(outcomes[0].seconds)
    assert 0 < outcomes[0].seconds < 5


def test_a_wide_grid_is_cut_into_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    real = sweep.run_batch

    def note(jobs: Sequence[Job], *rest: Any) -> None:
        widths.append(len(jobs))
        real(jobs, *rest)

    monkeypatch.setattr(sweep, "WIDEST", 3)
    monkeypatch.setattr(sweep, "run_batch", note)
    axes = {"outer_lr": [1.0, 2.0, 4.0, 8.0], "inner_steps": [1, 2]}
    outcomes = carry_out(jobs_of(values={"steps": 2}, axes=axes, seeds=1), tmp_path)
    assert sorted(widths) == [2, 2, 2, 2]
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 8


@pytest.mark.parametrize(("sizes", "batches"), [(5, [{0}, {1}]), (4, [{0, 1}])])
def test_many_runs_of_one_seed_are_a_batch_of_their_own(sizes: int, batches: list[set[int]]) -> None:
    made = jobs_of(values={"steps": 2}, axes={"outer_lr": [1.0, 2.0, 4.0, 8.0, 16.0][:sizes]}, seeds=2)
    groups, singles = sweep._grouped(made, made, Path("none"))
    assert [{job.seed for job in group} for group in groups] == batches
    assert sorted(job.key for group in groups for job in group) == sorted(job.key for job in made)
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
    groups, singles = sweep._grouped(made := jobs_of(method, values, axes, seeds=1 if axes else 2), made, Path("none"))
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
    together = carry_out([replace(job, log_every=1) for job in jobs], tmp_path / "batch")
    alone = carry_out([replace(job, log_every=1) for job in jobs], tmp_path / "single", batched=False)
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
    outcomes = carry_out(jobs, tmp_path)
    assert [outcome.status for outcome in outcomes.values()] == [DIVERGED] * 2
    assert all(0 < outcome.steps < 18 for outcome in outcomes.values())
    assert time.monotonic() - start < 20


# --- failures ---------------------------------------------------------------------------------------------------------


def test_whatever_is_wrong_with_one_run_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = solve

    def broken(made: Any, **rest: Any) -> Any:
        if made.settings.eta == 0.25:
            raise RuntimeError("out of luck")
        return real(made, **rest)

    monkeypatch.setattr(sweep, "solve", broken)
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.5, 0.25, 0.75]}, 1)
    outcomes = carry_out(jobs, tmp_path)
    assert [(o.status, o.reason) for o in outcomes.values()] == [
        (FINISHED, "3 steps done"), (FAILED, "RuntimeError: out of luck"), (FINISHED, "3 steps done"),
    ]  # fmt: skip


def test_a_method_that_refuses_the_task_fails_with_its_reason(tmp_path: Path) -> None:
    (outcome,) = carry_out(jobs_of("gda", {"steps": 2}, {}, seeds=1), tmp_path).values()
    assert outcome.status == FAILED
    assert outcome.reason.startswith("gda cannot solve this problem: ")


def test_a_folder_that_cannot_be_written_ends_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        carry_out(grid("lls", "bome", {"steps": 2}, {}, 1), tmp_path / "file")


def test_a_run_that_is_told_to_stop_is_no_failure_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = grid("lls", "bome", {"steps": 60}, {}, 1)
    whole = carry_out(jobs, tmp_path / "whole")
    real = solve

    def stopped(made: Any, **rest: Any) -> Any:
        def halfway(progress: Any) -> None:
            if progress.step == 30:
                os.kill(os.getpid(), signal.SIGINT)

        return real(made, **{**rest, "progress": halfway})

    monkeypatch.setattr(sweep, "solve", stopped)
    with pytest.raises(RunInterruptedError, match="after step 30"):
        carry_out(jobs, tmp_path / "parts")
    assert sweep.read(tmp_path / "parts", jobs[0]) is None
    monkeypatch.setattr(sweep, "solve", real)
    after = carry_out(jobs, tmp_path / "parts")
    assert repr(comparable(after[jobs[0]])) == repr(comparable(whole[jobs[0]]))
    assert not list((tmp_path / "parts" / "at_work").iterdir())


# --- once -------------------------------------------------------------------------------------------------------------


def test_each_configuration_is_run_exactly_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Job] = []
    real = sweep._outcome

    def counted(job: Job, *rest: Any) -> Outcome:
        ran.append(job)
        return real(job, *rest)

    monkeypatch.setattr(sweep, "_outcome", counted)
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5]}, 2)
    told: list[tuple[str, int, int]] = []
    first = carry_out([*jobs, *jobs], tmp_path, lambda *what: told.append(what))
    assert sorted(ran, key=repr) == sorted(jobs, key=repr)
    assert [done for _, done, _ in told] == [1, 2, 3, 4]
    before = mtimes(tmp_path)
    again = carry_out([*jobs, *grid("lls", "bome", {"steps": 3}, {"eta": [0.9]}, 1)], tmp_path)
    assert len(ran) == 5
    assert {name: when for name, when in mtimes(tmp_path).items() if name in before} == before
    assert all(repr(again[job]) == repr(first[job]) for job in jobs)


def test_a_damaged_outcome_is_made_again(tmp_path: Path) -> None:
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5]}, 1)
    first = carry_out(jobs, tmp_path)
    for content in ("", "{", "[]", '{"status": "finished"}', "null"):
        path = tmp_path / "done" / f"{jobs[0].key}.json"
        path.write_text(content)
        assert sweep.read(tmp_path, jobs[0]) is None
        assert repr(comparable(carry_out(jobs, tmp_path)[jobs[0]])) == repr(comparable(first[jobs[0]]))


def test_a_batch_killed_while_it_stored_its_outcomes_stores_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, real, steps = jobs_of(), sweep._write, []
    whole = carry_out(jobs, tmp_path / "whole")

    def dying(folder: Path, outcome: Outcome) -> None:
        if outcome.job == jobs[2]:
            raise KeyboardInterrupt
        real(folder, outcome)

    monkeypatch.setattr(sweep, "_write", dying)
    with pytest.raises(KeyboardInterrupt):
        carry_out(jobs, tmp_path / "parts")
    before = mtimes(tmp_path / "parts")
    assert len(before) == 2
    monkeypatch.setattr(sweep, "_write", real)
    step = sweep._Watched.step

    def counted(*rest: Any) -> Any:
        steps.append(1)
        return step(*rest)

    monkeypatch.setattr(sweep._Watched, "step", counted)
    after = carry_out(jobs, tmp_path / "parts")
    assert steps == []  # all of its steps were done
    assert {name: when for name, when in mtimes(tmp_path / "parts").items() if name in before} == before
    assert all(repr(comparable(after[job])) == repr(comparable(whole[job])) for job in jobs)
    assert not list((tmp_path / "parts" / "at_work").iterdir())


def test_a_folder_holds_one_sweep(tmp_path: Path) -> None:
    told = {"task": "lls", "grid": {"eta": [0.1]}}
    prepare(tmp_path / "new", told)
    prepare(tmp_path / "new", told)
    assert json.loads((tmp_path / "new" / "sweep.json").read_text()) == told
    with pytest.raises(ProblemError, match="holds another sweep: choose another --out"):
        prepare(tmp_path / "new", {**told, "task": "sine"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ProblemError, match="is not empty and not the folder of a sweep"):
        prepare(tmp_path / "full", told)
    with pytest.raises(ProblemError, match="is a file"):
        prepare(tmp_path / "full" / "notes.txt", told)


# --- kills ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spawning() -> Any:
    """Processes that have the library loaded and start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bome.runs.sweep", "torch._dynamo", "sklearn.datasets"])
    return context


@pytest.mark.parametrize("batched", [True, False])
def test_a_sweep_killed_at_random_moments_loses_nothing_and_repeats_nothing(
    batched: bool, spawning: Any, tmp_path: Path
) -> None:
    jobs = jobs_of(values={"steps": 150, "inner_steps": 1})
    whole = carry_out(jobs, tmp_path / "whole", batched=batched)
    folder, draw, kills = tmp_path / "parts", np.random.default_rng(0), 0
    seen: dict[str, int] = {}
    for attempt in range(60):
        child = spawning.Process(target=_child, args=(jobs, folder, batched))
        child.start()
        child.join(draw.uniform(0.1, 0.5 + attempt / 4))  # ever longer, for a busy machine
        if child.exitcode is not None:
            assert child.exitcode == 0
            break
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        kills += 1
        now = mtimes(folder)
        assert {name: now[name] for name in seen} == seen
        seen = now
    else:
        pytest.fail("no progress over kills")
    assert kills
    after = carry_out(jobs, folder, batched=batched)
    now = mtimes(folder)
    assert {name: now[name] for name in seen} == seen
    assert len(now) == len(jobs)
    assert all(repr(comparable(after[job])) == repr(comparable(whole[job])) for job in jobs)
    assert not list((folder / "at_work").iterdir())


def _child(jobs: list[Job], folder: Path, batched: bool) -> None:
    torch.set_num_threads(1)
    carry_out(jobs, folder, batched=batched)


def test_two_sweeps_at_once_share_the_work(spawning: Any, tmp_path: Path) -> None:
    jobs = jobs_of(values={"steps": 60, "inner_steps": 1})
    children = [spawning.Process(target=_child, args=(jobs, tmp_path, batched)) for batched in (False, False)]
    for child in children:
        child.start()
    first: dict[str, int] = {}
    while any(child.exitcode is None for child in children):
        now = mtimes(tmp_path)
        assert {name: now[name] for name in first} == first
        first = now
        time.sleep(0.05)
    assert [child.exitcode for child in children] == [0, 0]
    assert len(mtimes(tmp_path)) == 4


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    jobs = jobs_of(values={"steps": 150, "inner_steps": 1}, seeds=3)
    seen: dict[str, int] = {}
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 100
        while not killed and time.monotonic() < deadline:
            time.sleep(0.02)
            workers = _workers()
            if workers and mtimes(tmp_path):
                seen.update(mtimes(tmp_path))
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])

    thread = threading.Thread(target=kill)
    thread.start()
    outcomes = carry_out(jobs, tmp_path, workers=2, batched=False)
    thread.join()
    assert killed
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 6
    now = mtimes(tmp_path)
    assert {name: now[name] for name in seen} == seen
    assert len(now) == 6
    assert not list((tmp_path / "at_work").iterdir())


def _workers() -> list[int]:
    from joblib.externals.loky import reusable_executor

    executor = reusable_executor._executor
    return [] if executor is None else sorted(executor._processes)


def test_work_that_is_lost_again_and_again_is_given_up_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import joblib

    tries = []

    class Losing:
        def __init__(self, **options: Any) -> None:
            pass

        def __call__(self, work: Any) -> Iterator[Job]:
            tries.append(1)
            raise sweep._lost_worker()[0]("killed")
            yield

    monkeypatch.setattr(joblib, "Parallel", Losing)
    jobs = grid("lls", "bome", {"steps": 2}, {}, 2)
    outcomes = carry_out(jobs, tmp_path, workers=2)
    assert len(tries) == sweep.ATTEMPTS
    assert [(o.status, o.reason) for o in outcomes.values()] == [(FAILED, "its worker was lost")] * 2
    assert mtimes(tmp_path) == {}  # so that it is tried anew the next time


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("dask", "dask.distributed")])
def test_a_backend_that_is_not_installed_is_named_with_its_remedy(
    backend: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProblemError, match=rf"backend {backend} is not installed: pip install 'bome\[{backend}\]'"):
        carry_out(grid("lls", "bome", {"steps": 2}, {}, 1), tmp_path, backend=backend)


# --- choosing ---------------------------------------------------------------------------------------------------------


def outcome_of(eta: float, seed: int, status: str = FINISHED, **last: float | None) -> Outcome:
    return Outcome(Job("lls", "bome", (("eta", eta),), seed), status, "", [{"step": 1, **last}])


def test_the_choice_is_by_the_mean_loss_on_validation_set_2_and_never_by_test() -> None:
    outcomes = [
        outcome_of(0.1, 0, val2_loss=1.0, test_accuracy=90.0, f=0.0), outcome_of(0.1, 1, val2_loss=3.0, f=0.0),
        outcome_of(0.5, 0, val2_loss=1.5, test_accuracy=10.0, f=9.0), outcome_of(0.5, 1, val2_loss=1.5, f=9.0),
        outcome_of(0.9, 0, val2_loss=0.1, f=0.0), outcome_of(0.9, 1, DIVERGED, val2_loss=0.1, f=0.0),
        outcome_of(0.7, 0, val2_loss=None, f=0.0),
    ]  # fmt: skip
    choices = ranked(outcomes)
    assert [dict(choice.values)["eta"] for choice in choices][:2] == [0.5, 0.1]
    assert [choice.score for choice in choices] == [1.5, 2.0, float("inf"), float("inf")]
    assert choices[0].mean("test_accuracy") == (10.0, None)


def test_without_validation_set_2_a_low_f_is_not_chosen_where_theta_does_not_minimise_g() -> None:
    near, far = {"distance_to_optimum": 0.1, "kkt": 0.3, "f": 2.0}, {"distance_to_optimum": 0.5, "kkt": 0.2, "f": 1.0}
    for known, best in ((("distance_to_optimum", "kkt", "f"), 1), (("kkt", "f"), 2)):
        outcomes = [outcome_of(eta, 0, FINISHED, **{k: told[k] for k in known}) for eta, told in ((1, near), (2, far))]
        assert dict(ranked(outcomes)[0].values)["eta"] == best
        assert sweep.criterion(outcomes) == known[0]


def test_where_nothing_else_is_known_the_choice_is_by_f() -> None:
    assert [dict(choice.values)["eta"] for choice in ranked([outcome_of(1, 0, f=2.0), outcome_of(2, 0, f=1.0)])] == [
        2,
        1,
    ]


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Values 1, 2, 3: mean 2, deviation 1, standard error 1/√3."""
    mean, error = mean_and_error([1.0, 2.0, 3.0])
    assert mean == 2
    assert error == pytest.approx(3**-0.5)
    assert mean_and_error([5.0]) == (5.0, None)
    assert mean_and_error([])[1] is None
