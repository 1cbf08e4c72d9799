"""Comparisons on learning tasks: every method with its step size of v and its T chosen on validation set 2.

The stages, each of which is resumable:

1. reference models, such as "validation samples only";
2. on seed 0, every method with every T and step size of v, for a small budget; the best step size of each T then for
   the full budget: the lowest loss on validation set 2 wins. Where no finalist holds up (it diverges, or ends higher
   than the search did), the next ones of the search follow until one does;
3. the winner of each method on all seeds, for the full budget, with the inner problem also solved afresh at the end;
4. BOME with other T, α, η and φ; BVFSM and Penalty with other coefficients;
5. the time of a step of each winner, measured apart and in turns.

A budget is in gradient-equivalents: an evaluation of f or g counts 1, a second-order product 2, and one on a part of
the samples that part of it.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from bome._typing import Report
from bome.core.threads import one_thread
from bome.runs.choice import Choice, mean_and_error, ranked
from bome.runs.jobs import Job, Outcome
from bome.runs.names import METHODS
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.runs.schedule import run_jobs
from bome.stepper import Stepper
from bome.storage.memo import Memo
from bome_studies.learning.protocol import Ablation, LearningProtocol
from bome_studies.parts import PARTS
from bome_studies.study import Preset

Numbers = dict[str, float]
"""Quantities by name."""

Axis = Literal["units", "seconds", "step"]


@dataclass(frozen=True)
class Entry:
    """The chosen configuration of a method, and its runs.

    Attributes:
        method: its name.
        values: its settings.
        outcomes: of all seeds.
        units: gradient-equivalents of a step.
        seconds: of a step, measured apart.
        searched: what the search found for each configuration.
    """

    method: str
    values: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]
    units: float
    seconds: float = float("nan")
    searched: tuple[Outcome, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all runs ended as they should."""
        return bool(self.outcomes) and not self.astray

    @property
    def astray(self) -> list[int]:
        """The seeds whose runs did not end as they should."""
        return [outcome.job.seed for outcome in self.outcomes if outcome.status != "finished"]

    def on(self, seeds: int) -> "Entry":
        """Its runs on the first seeds only."""
        return replace(self, outcomes=tuple(outcome for outcome in self.outcomes if outcome.job.seed < seeds))

    def last(self, name: str, *, resolved: bool = False) -> tuple[float, float | None]:
        """Mean and standard error of a quantity at the end of the runs that ended as they should."""
        rows = [each.resolved if resolved else each.last for each in self.outcomes if each.status == "finished"]
        return mean_and_error([row[name] for row in rows if row.get(name) is not None])

    def curve(self, name: str, axis: Axis) -> tuple[list[float], list[float], list[float]]:
        """Where, mean and standard error of a quantity along the runs."""
        scale = {"units": self.units, "seconds": self.seconds, "step": 1.0}[axis]
        across, means, errors = [], [], []
        for rows in zip(*(outcome.history for outcome in self.outcomes), strict=False):
            mean, error = mean_and_error([row[name] for row in rows if row.get(name) is not None])
            across.append(scale * rows[0]["step"])
            means.append(mean)
            errors.append(error or 0.0)
        return across, means, errors


@dataclass(frozen=True)
class Comparison:
    """All that was found on a task.

    Attributes:
        task: its name.
        references: quantities of reference models, by name, one entry for each seed.
        entries: the methods, best first by the loss on validation set 2.
        extra: further configurations of BOME.
        ablations: the runs of each ablation by label.
    """

    task: str
    references: Mapping[str, list[Numbers]]
    entries: tuple[Entry, ...]
    extra: tuple[Entry, ...]
    ablations: Mapping[str, Mapping[str, Entry]]

    @property
    def alike(self) -> "Comparison":
        """The methods on the seeds that all of them have, so that the draw of the data is no part of a difference."""
        seeds = min(len(entry.outcomes) for entry in self.entries)
        return replace(self, entries=tuple(entry.on(seeds) for entry in self.entries))

    def entry(self, method: str) -> Entry:
        """That of a method."""
        return next(entry for entry in self.entries if entry.method == method)

    def reference(self, name: str, quantity: str) -> tuple[float, float | None]:
        """Mean and standard error of a reference line."""
        return mean_and_error([numbers[quantity] for numbers in self.references[name]])


RUN_AS = {"bome": "bome:paper"}
"""The method of the paper is its variant `paper`, whose λ takes no notice of projections."""

References = Callable[[str, int, Preset], dict[str, Numbers]]
"""Called with (task, seed, preset): models without an outer problem, and what they reach."""


def compare(
    protocol: LearningProtocol, references: References, preset: Preset, folder: Path, report: Report
) -> list[Comparison]:
    """All stages for all tasks; what is finished in the folder is read."""
    return [_one_task(task, protocol, references, preset, folder, report) for task in protocol.tasks]


def _one_task(
    task: str, protocol: LearningProtocol, references: References, preset: Preset, folder: Path, report: Report
) -> Comparison:
    parts = folder / PARTS / task
    seeds = max(protocol.seeds)

    def told(stage: str) -> Report:
        return lambda what, done, total: report(f"{task}: {stage}", done, total)

    lines: dict[str, list[Numbers]] = {}
    for seed in range(seeds):
        spec = {"task": task, "seed": seed, "preset": preset}
        models = Memo(parts).keep(f"references-{seed}", spec, partial(references, task, seed, preset))
        told("references")("", seed + 1, seeds)
        for name, numbers in models.items():
            lines.setdefault(name, []).append(numbers)

    searched = run_jobs(_search(task, protocol), parts, told("search"), protocol.workers)
    chosen: dict[str, tuple[dict[str, Any], tuple[Outcome, ...]]] = {}
    for done, method in enumerate(protocol.methods):
        outcomes = tuple(outcome for job, outcome in searched.items() if job.method == RUN_AS.get(method, method))
        chosen[method] = _winner(task, method, ranked(outcomes), protocol, parts), outcomes
        told("finalists")(method, done + 1, len(protocol.methods))
    runs = run_jobs(
        [job for method, (values, _) in chosen.items() for job in _final(task, method, values, protocol)],
        parts,
        told("runs"),
        protocol.workers,
    )
    entries = []
    for method, (values, outcomes) in chosen.items():
        jobs = _final(task, method, values, protocol)
        entries.append(
            Entry(
                method,
                dict(jobs[0].values),
                tuple(runs[job] for job in jobs),
                units(protocol, method, values["inner_steps"]),
                _seconds(task, method, jobs[0], parts),
                outcomes,
            )
        )
    ordered = sorted(entries, key=lambda entry: entry.last("val2_loss")[0] if entry.finished else float("inf"))
    return Comparison(
        task,
        lines,
        tuple(ordered),
        tuple(_further(task, each, protocol, parts, told("further runs of bome")) for each in protocol.extra.values()),
        {each.name: _ablated(task, each, protocol, parts, told(each.name)) for each in protocol.ablations},
    )


def _winner(
    task: str, method: str, choices: Sequence[Choice], protocol: LearningProtocol, parts: Path
) -> dict[str, Any]:
    """The settings of a method: those of the best finalist on seed 0 that holds up for the full budget."""
    best_of_t = {dict(choice.values)["inner_steps"]: choice for choice in reversed(choices)}
    finalists = [choice for choice in choices if choice in best_of_t.values()]
    rounds = [finalists, *([choice] for choice in choices if choice not in finalists)]
    for contenders in rounds:
        jobs = {_final(task, method, dict(each.values), protocol)[0]: each for each in contenders}
        runs = run_jobs(jobs, parts, workers=protocol.workers)
        order = ranked(runs[job] for job in jobs)
        held = [each for each in order if each.score <= jobs[each.outcomes[0].job].score < math.inf]
        if held:
            return dict(jobs[held[0].outcomes[0].job].values)
    return dict(choices[0].values)


def _further(task: str, values: Mapping[str, Any], protocol: LearningProtocol, parts: Path, report: Report) -> Entry:
    """BOME with given settings on all its seeds."""
    jobs = [_job(task, "bome", values, seed, True) for seed in range(protocol.seeds[1])]
    outcomes = run_jobs(jobs, parts, report, protocol.workers)
    step = units(protocol, "bome", values["inner_steps"])
    return Entry("bome", values, tuple(outcomes[job] for job in jobs), step, _seconds(task, "bome", jobs[0], parts))


def _ablated(
    task: str, ablation: Ablation, protocol: LearningProtocol, parts: Path, report: Report
) -> dict[str, Entry]:
    jobs = {
        label: [
            _job(task, ablation.method, {**ablation.fixed, **varied, "steps": ablation.steps}, seed, False)
            for seed in range(ablation.seeds)
        ]
        for label, varied in ablation.varied.items()
    }
    outcomes = run_jobs([job for each in jobs.values() for job in each], parts, report, protocol.workers)
    entries = {}
    for label, each in jobs.items():
        values = dict(each[0].values)
        step = units(protocol, ablation.method, values["inner_steps"])
        entries[label] = Entry(ablation.method, values, tuple(outcomes[job] for job in each), step)
    return entries


# --- jobs -------------------------------------------------------------------------------------------------------------


def _job(task: str, method: str, values: Mapping[str, Any], seed: int, resolve: bool) -> Job:
    every = max(1, int(values["steps"]) // 25)
    return Job(task, RUN_AS.get(method, method), tuple(sorted(values.items())), seed, log_every=every, resolve=resolve)


def _search(task: str, protocol: LearningProtocol) -> list[Job]:
    jobs = []
    for method in protocol.methods:
        for inner_steps in protocol.inner_steps if uses_t(method) else protocol.inner_steps[:1]:
            steps = steps_for(protocol, method, inner_steps, protocol.search)
            jobs += [
                _job(task, method, {"inner_steps": inner_steps, "outer_lr": lr, "steps": steps}, 0, False)
                for lr in protocol.outer_lrs
            ]
    return jobs


def _final(task: str, method: str, values: Mapping[str, Any], protocol: LearningProtocol) -> list[Job]:
    steps = steps_for(protocol, method, values["inner_steps"], protocol.budget)
    seeds = protocol.seeds[1] if method == "bome" else protocol.seeds[0]
    return [_job(task, method, {**values, "steps": steps}, seed, True) for seed in range(seeds)]


def uses_t(method: str) -> bool:
    """Whether a method has an inner loop whose length is to be chosen."""
    return "inner" in METHODS[method].__dataclass_fields__  # type: ignore[attr-defined]


def steps_for(protocol: LearningProtocol, method: str, inner_steps: int, budget: float) -> int:
    """Outer steps that a budget allows."""
    return max(1, min(protocol.most_steps, int(budget / units(protocol, method, inner_steps))))


def units(protocol: LearningProtocol, method: str, inner_steps: int) -> float:
    """Gradient-equivalents of a step on the tasks of a protocol."""
    counts, batch, outer_batch = _counted(protocol.twin, method, inner_steps)
    train, validation = protocol.samples
    part = {"f": (outer_batch or validation) / validation}
    weight = {"f": 1, "g": 1}
    return sum(n * weight.get(kind, 2) * part.get(kind, (batch or train) / train) for kind, n in counts.items())


@lru_cache(maxsize=256)
def _counted(twin: str, method: str, inner_steps: int) -> tuple[dict[str, float], int, int]:
    """Evaluations of a step by kind, counted on a small task; and the sizes of minibatches."""
    small = plan(twin, method, {"inner_steps": inner_steps})
    period = small.method.period
    small = plan(twin, method, {"inner_steps": inner_steps, "steps": 2 * period})
    result = perform(small, log_every=2 * period)
    counts = {kind: n / (2 * period) for kind, n in result.evaluations.items()}
    return counts, small.settings.batch, small.settings.outer_batch


def _seconds(task: str, method: str, job: Job, parts: Path) -> float:
    """The time of a step: the median of a few, with one thread."""
    spec = {"task": task, "method": method, "values": dict(job.values)}
    return float(Memo(parts).keep(f"seconds-{job.key}", spec, partial(_measured, job)))


def _measured(job: Job) -> float:
    setup = job.plan()
    opts = setup.optimisers()
    stepper = Stepper(setup.task.problem, setup.method, opts.outer_opt, opts.inner_opt)
    data = setup.task.streams(setup.method, setup.settings)  # type: ignore[misc]
    times = []
    with one_thread():
        for _ in range(4):
            batches = data.draw(inner=setup.method.inner_batches, outer=setup.method.outer_batches)
            start = time.process_time()
            stepper.step_on(batches)
            times.append(time.process_time() - start)
    return statistics.median(times[1:])
