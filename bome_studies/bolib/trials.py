"""Trials: a contender on a problem, judged at each budget."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bome._typing import Report
from bome.tasks.bolib import RECORDS, Record
from bome.tasks.bolib.judge import is_solved
from bome_studies.bolib.contenders import SOLVE, Answer, Contender, RefusedError, contenders
from bome_studies.bolib.protocol import BolibProtocol
from bome_studies.parts import results_of

ROUGH, FINE = 1e-2, 1e-3
"""The two tolerances."""


@dataclass(frozen=True)
class Mark:
    """An answer, judged.

    Attributes:
        budget: what was allowed.
        evaluations: what was spent.
        f: of the answer.
        rough: whether it solves the problem to 1 %.
        fine: to 0.1 %.
    """

    budget: int
    evaluations: int
    f: float
    rough: bool
    fine: bool


@dataclass(frozen=True)
class Outcome:
    """How a trial went.

    Attributes:
        marks: for each budget that was reached.
        claim: whether the last answer is taken for a solution by who gave it.
        refused: why the problem is not taken; empty if it is.
        seconds: for all of it.
    """

    marks: tuple[Mark, ...]
    claim: bool | None
    refused: str
    seconds: float

    def solved(self, budget: int, *, fine: bool = False) -> bool:
        """Whether the answer at this budget solves the problem."""
        return any(mark.budget == budget and (mark.fine if fine else mark.rough) for mark in self.marks)

    @property
    def needed(self) -> int | None:
        """From which budget on all answers solve the problem to 1 %; None if the last does not."""
        least = None
        for mark in reversed(self.marks):
            if not mark.rough:
                break
            least = mark.budget
        return least


@dataclass(frozen=True)
class Trial:
    """What is run at once."""

    contender: str
    problem: str
    seed: int
    budgets: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.contender.replace(':', '-').replace(' ', '-')}/{self.problem}-{self.seed}"


class Results:
    """All outcomes.

    Attributes:
        by_name: the outcomes of the seeds, by contender and problem.
        of: the budgets of each contender.
        budgets: at which the answers of all contenders were judged.
    """

    def __init__(self, outcomes: Mapping[Trial, Outcome]) -> None:
        self.by_name: dict[str, dict[str, list[Outcome]]] = {}
        self.budgets = min((trial.budgets for trial in outcomes), key=len)
        self.of: dict[str, tuple[int, ...]] = {trial.contender: trial.budgets for trial in outcomes}
        for trial, outcome in outcomes.items():
            self.by_name.setdefault(trial.contender, {}).setdefault(trial.problem, []).append(outcome)

    def solved(self, contender: str, problems: Sequence[str], budget: int = 0, *, fine: bool = False) -> float:
        """How many of these problems a contender solves, in the mean over its seeds."""
        at, own = budget or self.budgets[-1], self.by_name[contender]
        shares = [[outcome.solved(at, fine=fine) for outcome in own[name]] for name in problems if name in own]
        return sum(statistics.fmean(share) for share in shares)

    def refused(self, contender: str, problems: Sequence[str]) -> int:
        """How many of these problems it does not take."""
        return sum(bool(self.by_name[contender][name][0].refused) for name in problems)

    def needed(self, contender: str, problems: Sequence[str]) -> float | None:
        """The median of the evaluations after which it had solved those that it solves."""
        each = [outcome.needed for name in problems for outcome in self.by_name[contender][name]]
        known = [needed for needed in each if needed is not None]
        return statistics.median(known) if known else None

    def claimed(self, contender: str, problems: Sequence[str], *, claim: bool | None, solved: bool) -> int:
        """How many answers at its last budget have this claim, and solve the problem or do not."""
        last = self.of[contender][-1]
        outcomes = [outcome for name in problems for outcome in self.by_name[contender][name] if outcome.marks]
        return sum(o.claim is claim and o.solved(last) is solved for o in outcomes)

    def each_seed(self, contender: str, problems: Sequence[str], *, fine: bool = False) -> list[int]:
        """How many of these problems it solves with its last budget, for each seed."""
        own, last = self.by_name[contender], self.of[contender][-1]
        seeds = max((len(own[name]) for name in problems), default=1)
        return [sum(own[name][k % len(own[name])].solved(last, fine=fine) for name in problems) for k in range(seeds)]


def measured(protocol: BolibProtocol, folder: Path, report: Report, workers: int) -> Results:
    """The outcomes of all trials; those that are in the folder are read."""
    known = contenders()
    trials = [
        Trial(name, problem, seed, (*protocol.budgets, *(protocol.further if name == SOLVE else ())))
        for name in protocol.contenders or known
        for problem in protocol.problems or RECORDS
        for seed in range(protocol.seeds if known[name].random else 1)
    ]
    outcomes = results_of(trials, tried, folder, report, workers, restored)
    return Results({trial: outcomes[trial.name] for trial in trials})


def tried(trial: Trial) -> Outcome:
    """One trial."""
    return outcome_of(contenders()[trial.contender], RECORDS[trial.problem], trial.budgets, trial.seed)


def outcome_of(contender: Contender, record: Record, budgets: Sequence[int], seed: int) -> Outcome:
    """A contender on a problem."""
    start, answers = time.perf_counter(), list[Answer]()
    try:
        answers += contender.answers(record, budgets, seed)
    except RefusedError as error:
        return Outcome((), None, str(error), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    marks = tuple(_judged(record, budget, answer) for budget, answer in zip(budgets, answers, strict=False))
    return Outcome(marks, answers[-1].claim if len(answers) == len(budgets) else None, "", seconds)


def restored(stored: Any) -> Outcome:
    """An outcome from its file."""
    return Outcome(**{**stored, "marks": tuple(Mark(**mark) for mark in stored["marks"])})


def _judged(record: Record, budget: int, answer: Answer) -> Mark:
    x, y = answer.x, answer.y
    finite = bool(torch.isfinite(torch.cat([x, y])).all())
    rough = finite and is_solved(record, x, y, ROUGH)
    f = float(record.f(x, y)) if finite else float("nan")
    return Mark(budget, answer.evaluations, f, rough, rough and is_solved(record, x, y, FINE))
