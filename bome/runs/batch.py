"""Batches: runs that differ only in seed and step size of v, as one run in one process.

Their products with the data become one wide product. It takes a first-order or separable method, and a task that can
stack its runs.
"""

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bome._typing import State
from bome.core.barrier import Metric
from bome.core.seeds import seed_everything
from bome.core.trees import Pair
from bome.data import Data
from bome.errors import BilevelError, RunInterruptedError, StorageError
from bome.inner import GradientDescent
from bome.loop import Record, Result, run
from bome.methods import Batched
from bome.methods.base import Info, Step
from bome.methods.batched import batchable
from bome.oracles import Oracle, make
from bome.problem import Batches
from bome.runs.directory import DIVERGED, FINISHED
from bome.runs.jobs import AT_WORK, Job, Outcome, Outcomes, Stock, failure
from bome.runs.plan import Plan
from bome.stopping import FirstOf, MaxSteps, Progress
from bome.storage.atomic import write_atomic
from bome.tasks.task import Stack
from bome.worth import Assessment, Start, Worth
from bome.worth.start import write

WIDEST = 20
"""The most runs in one batch: beyond that the product gains nothing and memory grows."""

WIDE = 5
"""So many runs of one seed make a batch of their own: all of them use the same samples, and with more rows the product
gains less than is lost on samples that only other seeds use."""

SCALED = "outer_lr"
"""In this setting the runs of one batch may differ, beside the seed; step sizes of θ enter the steps of methods."""

SAVE_EVERY = 100
"""Steps between states to continue from."""

BATCH = "batch.json"
"""The keys of the jobs of an unfinished batch."""


def group(
    jobs: Sequence[Job], missing: Sequence[Job], store: Outcomes, stock: Stock
) -> tuple[list[list[Job]], list[Job]]:
    """Jobs that run as a batch together, those of interrupted batches first, and those that do not."""
    groups = _interrupted(jobs, store)
    taken = {job for group in groups for job in group}
    like: dict[Job, list[Job]] = {}
    for job in missing:
        if job not in taken:
            shared = tuple((key, value) for key, value in job.values if key != SCALED)
            like.setdefault(replace(job, values=shared, seed=0), []).append(job)
    singles: list[Job] = []
    for each in like.values():
        if len(each) > 1 and _stackable(each[0], stock):
            for some in _by_seed(each):
                count = math.ceil(len(some) / WIDEST)
                groups += [some[i::count] for i in range(count)]
        else:
            singles += each
    return groups, singles


def _by_seed(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each seed where they make a batch of their own, and all others together."""
    seeds: dict[int, list[Job]] = {}
    for job in jobs:
        seeds.setdefault(job.seed, []).append(job)
    rest = [job for job in jobs if len(seeds[job.seed]) < WIDE]
    return [some for some in seeds.values() if len(some) >= WIDE] + ([rest] if rest else [])


def _interrupted(jobs: Sequence[Job], store: Outcomes) -> list[list[Job]]:
    """The batches that were under way when the sweep was killed, of runs that are wanted again."""
    by_key = {job.key: job for job in jobs}
    groups: list[list[Job]] = []
    for path in sorted((store.folder / AT_WORK).glob(f"*/{BATCH}")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            groups.append([by_key[key] for key in json.loads(path.read_text(encoding="utf-8"))])
    return groups


def _stackable(job: Job, stock: Stock) -> bool:
    try:
        plan = stock.look(job)
    except StorageError:
        raise
    except BilevelError:
        return False  # says so when it is run
    whole = plan.settings.batch == plan.settings.outer_batch == plan.settings.decay == 0
    alike = getattr(plan.method, "geometry", "euclidean") == "euclidean"  # else the step size of v enters the step
    fits = plan.task.stack is not None and batchable(plan.method) and plan.tuner is None
    return fits and whole and alike


@dataclass(frozen=True)
class _Watched(Batched):
    """A batch whose state also says how many steps each run `lived`, and which knows when none is alive."""

    memory: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """As the batch."""
        state = super().init(oracle, point)
        return {**state, "lived": (torch.zeros_like(state["alive"][0], dtype=torch.long),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """As the batch; where no run is alive, what is measured is 0, so that this is no failure."""
        lived = state["lived"][0]
        step = super().step(oracle, point, {k: x for k, x in state.items() if k != "lived"}, batches, metric)
        alive = step.state["alive"][0]
        self.memory["alive"] = alive
        measured = [None if x is None else torch.where(alive.any(), x, 0.0) for x in step.info]
        return step._replace(state={**step.state, "lived": (lived + alive,)}, info=Info(*measured))  # type: ignore[arg-type]

    def none_alive(self, progress: Progress) -> str | None:
        """A rule for the end of the run."""
        return "all runs diverged" if "alive" in self.memory and not self.memory["alive"].any() else None


def run_batch(jobs: Sequence[Job], store: Outcomes, stock: Stock, progress: Callable[[Progress], None]) -> None:
    """Run jobs as one batch, or continue it, and store the outcomes that are not there yet."""
    place = store.at_work(replace(jobs[0], values=tuple((job.key, job.seed) for job in jobs)))
    with store.alone(jobs, place) as left:
        if not left:
            return
        write_atomic(place / BATCH, json.dumps([job.key for job in jobs]))
        try:
            outcomes = _outcomes(jobs, place, stock, progress)
        except (StorageError, RunInterruptedError):
            raise
        except Exception as error:  # whatever is wrong with one batch, the others go on
            outcomes = [failure(job, error) for job in jobs]
        for outcome in outcomes:
            store.write(outcome)


def _outcomes(jobs: Sequence[Job], place: Path, stock: Stock, progress: Callable[[Progress], None]) -> list[Outcome]:
    plans = [stock.look(job) for job in jobs]  # their tasks stay as they are: a stack has variables of its own
    first = plans[0]
    make_stack = first.task.stack
    assert make_stack is not None, "only stackable jobs are grouped"  # noqa: S101 - for the type checker
    stack = make_stack([plan.task for plan in plans])
    scales = tuple(plan.settings.outer_lr / first.settings.outer_lr for plan in plans)
    method = _Watched(first.method, own_data=stack.dims, v_scale=scales)
    seed_everything(jobs[0].seed)
    result = run(
        stack.problem,
        method,
        **first.optimisers(stack.problem)._asdict(),
        data=stack.data,
        stop=FirstOf((MaxSteps(first.settings.steps), method.none_alive)),
        oracle=method.oracle,
        observe=lambda problem: _observe(plans, stack),
        log_every=jobs[0].log_every,
        record=Record(place, SAVE_EVERY, resume=True),
        progress=progress,
        refit=False,
    )
    return [_own(job, plan, i, result, stack) for i, (job, plan) in enumerate(zip(jobs, plans, strict=True))]


def _own(job: Job, plan: Plan, i: int, result: Result, stack: Stack) -> Outcome:
    """The outcome of one run of a batch."""
    state, runs = result.state["state"], len(stack.rows)
    lives, lived = bool(state["alive"][0][i]), int(state["lived"][0][i])
    end = result.steps if lives else lived
    rows = [own for row in result.history.rows if (own := _own_row(row, i, runs))["step"] <= end]
    counts = {kind: n * lived // result.steps for kind, n in result.evaluations.items()}
    if lives:
        rows[-1] |= _worth(plan, stack.point(i), lived, counts).numbers()
    return Outcome(
        job,
        FINISHED if lives else DIVERGED,
        result.status if lives else f"step {lived}: its direction or a loss is not finite; try smaller step sizes",
        rows,
        counts,
        lived,
        result.seconds / runs,
        plan.task.observe_afresh(stack.point(i)) if job.resolve and lives else {},
        _own_part(result.history.rows[-1], i) if lives else {},
    )


def _worth(plan: Plan, point: Pair, steps: int, counts: Mapping[str, int]) -> Worth:
    """F(v) of one run, as if it had been alone; the task is put back to its start, since others have it, too."""
    problem, method = plan.task.problem, plan.method
    assessment, start, oracle = Assessment(problem, None), Start(problem), make(problem, "auto")
    oracle.counts = Counter(counts)
    data = Data() if plan.task.streams is None else plan.task.streams(method, plan.settings)
    inner = method.inner_map or GradientDescent(plan.settings.theta_lr)
    try:
        write(problem.point.v, point.v)
        write(problem.point.theta, point.theta)
        return assessment.worth(oracle, method, inner, k=steps, data=data)
    finally:
        start.write_all(problem)


def _observe(plans: Sequence[Plan], stack: Stack) -> dict[str, float]:
    """What each run shows, its number before the name."""
    rows: dict[str, float] = {}
    for i, plan in enumerate(plans):
        observe = plan.task.observe
        if observe is not None:
            rows |= {f"{i}/{name}": value for name, value in observe(stack.point(i)).items()}
    return rows


def _own_row(row: Mapping[str, Any], i: int, runs: int) -> dict[str, Any]:
    """The part of a row that belongs to one run, and its share of the time."""
    shared = {key: row[key] for key in row if key == "step" or key.startswith("n_")}
    return {**shared, "seconds": row["seconds"] / runs, **_own_part(row, i)}


def _own_part(row: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What a run shows in a row of its batch."""
    return {key.partition("/")[2]: value for key, value in row.items() if key.startswith(f"{i}/")}
