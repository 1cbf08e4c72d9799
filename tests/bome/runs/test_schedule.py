"""Sweeps: each job exactly once, whatever fails or is killed."""

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bome.core.trees import Pair
from bome.errors import RunInterruptedError, StorageError, WorkerError
from bome.problem import Problem
from bome.runs import directory, schedule
from bome.runs.directory import FINISHED
from bome.runs.jobs import FAILED, Job, Outcome, Outcomes, Stock, grid
from bome.runs.names import TASKS, register
from bome.runs.perform import perform
from bome.runs.schedule import run_jobs
from bome.storage.jsonfile import plain
from bome.tasks import Task, hyperclean_digits, lls
from tests.support.sweeps import comparable, jobs_of, mtimes


def test_whatever_is_wrong_with_one_run_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = perform

    def broken(made: Any, **rest: Any) -> Any:
        if made.settings.eta == 0.25:
            raise RuntimeError("out of luck")
        return real(made, **rest)

    monkeypatch.setattr(schedule, "perform", broken)
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.5, 0.25, 0.75]}, 1)
    outcomes = run_jobs(jobs, tmp_path)
    assert [(o.status, o.reason) for o in outcomes.values()] == [
        (FINISHED, "3 steps done"), (FAILED, "RuntimeError: out of luck"), (FINISHED, "3 steps done"),
    ]  # fmt: skip


def test_a_method_that_refuses_the_task_fails_with_its_reason(tmp_path: Path) -> None:
    (outcome,) = run_jobs(jobs_of("gda", {"steps": 2}, {}, seeds=1), tmp_path).values()
    assert outcome.status == FAILED
    assert outcome.reason.startswith("gda cannot solve this problem: ")


def test_a_folder_that_cannot_be_written_ends_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        run_jobs(grid("lls", "bome", {"steps": 2}, {}, 1), tmp_path / "file")


def test_a_run_that_is_told_to_stop_is_no_failure_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = grid("lls", "bome", {"steps": 60}, {}, 1)
    whole = run_jobs(jobs, tmp_path / "whole")
    real = perform

    def stopped(made: Any, **rest: Any) -> Any:
        def halfway(progress: Any) -> None:
            if progress.step == 30:
                os.kill(os.getpid(), signal.SIGINT)

        return real(made, **{**rest, "progress": halfway})

    monkeypatch.setattr(schedule, "perform", stopped)
    with pytest.raises(RunInterruptedError, match="after step 30"):
        run_jobs(jobs, tmp_path / "parts")
    assert Outcomes(tmp_path / "parts").read(jobs[0]) is None
    monkeypatch.setattr(schedule, "perform", real)
    after = run_jobs(jobs, tmp_path / "parts")
    assert repr(comparable(after[jobs[0]])) == repr(comparable(whole[jobs[0]]))
    assert not list((tmp_path / "parts" / "at_work").iterdir())


def test_each_configuration_is_run_exactly_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Job] = []
    real = schedule._outcome

    def counted(job: Job, *rest: Any) -> Outcome:
        ran.append(job)
        return real(job, *rest)

    monkeypatch.setattr(schedule, "_outcome", counted)
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5]}, 2)
    told: list[tuple[str, int, int]] = []
    first = run_jobs([*jobs, *jobs], tmp_path, lambda *what: told.append(what))
    assert sorted(ran, key=repr) == sorted(jobs, key=repr)
    assert [done for what, done, _ in told if ", step " not in what] == [1, 2, 3, 4]
    before = mtimes(tmp_path)
    again = run_jobs([*jobs, *grid("lls", "bome", {"steps": 3}, {"eta": [0.9]}, 1)], tmp_path)
    assert len(ran) == 5
    assert {name: when for name, when in mtimes(tmp_path).items() if name in before} == before
    assert all(repr(again[job]) == repr(first[job]) for job in jobs)


@pytest.fixture(scope="module")
def spawning() -> Any:
    """Processes that have the library loaded and start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bome.runs.schedule", "torch._dynamo", "sklearn.datasets"])
    return context


@pytest.mark.parametrize("batched", [True, False])
def test_a_sweep_killed_at_random_moments_loses_nothing_and_repeats_nothing(
    batched: bool, spawning: Any, tmp_path: Path
) -> None:
    jobs = jobs_of(values={"steps": 150, "inner_steps": 1})
    whole = run_jobs(jobs, tmp_path / "whole", batched=batched)
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
    after = run_jobs(jobs, folder, batched=batched)
    now = mtimes(folder)
    assert {name: now[name] for name in seen} == seen
    assert len(now) == len(jobs)
    assert all(repr(comparable(after[job])) == repr(comparable(whole[job])) for job in jobs)
    assert not list((folder / "at_work").iterdir())


def _child(jobs: list[Job], folder: Path, batched: bool) -> None:
    torch.set_num_threads(1)
    run_jobs(jobs, folder, batched=batched)


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
    outcomes = run_jobs(jobs, tmp_path, workers=2, batched=False)
    thread.join()
    assert killed
    assert [outcome.status for outcome in outcomes.values()] == [FINISHED] * 6
    now = mtimes(tmp_path)
    assert {name: now[name] for name in seen} == seen
    assert len(now) == 6
    assert not list((tmp_path / "at_work").iterdir())


def _workers() -> list[int]:
    return sorted(child.pid or 0 for child in multiprocessing.active_children())


def test_work_that_is_lost_again_and_again_is_given_up_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*rest: Any) -> Iterator[Any]:
        raise WorkerError
        yield

    monkeypatch.setattr(schedule, "each", lose)
    outcomes = run_jobs(grid("lls", "bome", {"steps": 2}, {}, 2), tmp_path, workers=2)
    assert [(o.status, o.reason) for o in outcomes.values()] == [(FAILED, "its worker was lost")] * 2
    assert mtimes(tmp_path) == {}  # so that it is tried anew the next time


# --- the same run -----------------------------------------------------------------------------------------------------


def noisy(variant: str = "code", start: str = "a", seed: int = 0) -> Task:
    """A task whose inner loss draws from the global random numbers of Python, NumPy and torch."""
    task = lls(variant, start, seed=seed)
    problem = task.problem

    def inner(v: Any, theta: Any, batch: Any) -> torch.Tensor:
        noise = 1e-9 * (random.random() + np.random.rand() + float(torch.rand(())))  # noqa: NPY002, S311
        loss: torch.Tensor = problem.inner(v, theta, batch) * (1 + noise)
        return loss

    return replace(task, problem=Problem(problem.outer, inner, problem.v.value, problem.theta.value), optimum=None)


@pytest.fixture
def _noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TASKS, "registered", {})
    register("noisy", noisy)


@pytest.mark.usefixtures("_noisy")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_and_a_sweep_of_the_same_seed_give_the_same_bits(workers: int, tmp_path: Path) -> None:
    """In this process and in a worker, which learns of a registered task by what is sent with its work."""
    jobs = grid("noisy", "bome", {"steps": 30}, {"eta": [0.5, 0.7][:workers]}, 1)
    job, (_, outcome) = jobs[0], next(iter(run_jobs(jobs, tmp_path / "sweep", workers=workers).items()))
    plan = job.plan()
    random.random()  # noqa: S311 - whatever was drawn before
    config = directory.configure(plan, log_every=10, save_every=1000)
    summary = directory.perform_into(tmp_path / "run", plan, config)
    rows = directory.read_metrics(tmp_path / "run")
    assert comparable(outcome) == [{key: x for key, x in plain(row).items() if key != "seconds"} for row in rows]
    assert summary["f"] == outcome.last["f"]
    assert [row["step"] for row in rows] == [0, 10, 20, 30]


@pytest.mark.parametrize("batched", [True, False])
def test_six_runs_build_six_tasks_and_observe_each_end_once(
    batched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Task] = []
    seen: list[Pair] = []

    def counted(seed: int = 0) -> Task:
        made = hyperclean_digits(seed=seed)
        observe = made.observe
        assert observe is not None

        def look(point: Pair) -> dict[str, float]:
            seen.append(point)
            return observe(point)

        built.append(replace(made, observe=look, stack=made.stack if batched else None))
        return built[-1]

    monkeypatch.setattr(TASKS, "registered", {})
    register("counted", counted)
    jobs = grid("counted", "bome", {"steps": 2, "inner_steps": 1}, {"outer_lr": [10.0, 20.0]}, 3)
    stock = Stock()
    for job in jobs:
        if job.seed == 0:
            stock.look(job)
    outcomes = run_jobs(jobs, tmp_path, stock=stock)
    assert [outcome.observed["val2_loss"] for outcome in outcomes.values()] == [
        outcome.last["val2_loss"] for outcome in outcomes.values()
    ]
    assert len(built) == (3 if batched else 6)
    assert len(seen) == 6 * 2  # the first row and the end
