"""Solve a bilevel problem with nothing to choose.

    1:  survey the start: reaches and units                                             (`survey`)
    2:  runs, until a fifth of the budget is left: ψ_σ descended in v for growing σ     (`search`, `continuation`)
    3:  choose: the lowest f + σ q, with q measured again                               (`choice`)
    4:  judge: f over the inner minimisers, shadow prices, the verdict                  (`ties`, `prices`, `verdict`)

All of it is paid from one budget of evaluations.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bome._checks import check_count, check_positive
from bome.certificate import Certificate
from bome.core.signals import signals
from bome.errors import ProblemError
from bome.loop import Record
from bome.methods.base import Info
from bome.nested.choice import choose
from bome.nested.continuation import Run, points
from bome.nested.losses import Losses, Meter, Spent
from bome.nested.result import Solution, distinct
from bome.nested.search import PENALTY, ROUND, Search, sets_of
from bome.nested.survey import Dice, survey
from bome.nested.value import STEPS, Point
from bome.nested.verdict import CLAIM, Judge
from bome.oracles import make
from bome.problem import Problem
from bome.stopping import Progress
from bome.storage.history import History

BUDGET = 5_000
"""Evaluations where nothing else is asked for."""
CHOICE, VERDICT = 400, 600
"""Evaluations that are kept back for what follows the search; of a small budget a tenth and a fifth."""


def solve(
    problem: Problem,
    *,
    budget: int = BUDGET,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    data: Any = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Solve a bilevel problem with nothing to choose.

    At the end of the budget, of the seconds or at Ctrl-C one gets the best point so far, with its verdict. Of several
    solutions of the inner problem the one is taken that is best for f.

    Args:
        problem: the losses, constraints and live variables; the solution is left in them.
        budget: the most evaluations: gradients of f or of g, rows of the Jacobian of the constraints, values alone.
        seconds: the most seconds.
        runs: the most runs from different starts; by default as many as the budget allows.
        seed: of random starts; equal seeds give equal results.
        jobs: how many runs are done side by side; the result does not depend on it.
        data: not yet: losses hold all of their data.
        record: where to write history and checkpoints; nothing is written by default.
        progress: called after every evaluation of the value function.
    """
    check_count("budget", budget)
    check_count("jobs", jobs)
    if runs is not None:
        check_count("runs", runs)
    if seconds is not None:
        check_positive("seconds", seconds)
    if data is not None:
        raise ProblemError("solve takes no minibatches yet: put all data into the losses, or use bome.run(..., data=)")
    with signals() as asked:
        session = _Session(problem, budget, seconds, runs, seed, asked, progress)
        return session.solved()


@dataclass
class _Session:
    """One call of `solve`."""

    problem: Problem
    budget: int
    seconds: float | None
    runs: int | None
    seed: int
    asked: Sequence[int]
    progress: Callable[[Progress], None] | None
    history: History = field(default_factory=History)
    ended: list[Run] = field(default_factory=list)
    step: int = 0

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        self.meter = Meter(self.budget)
        self.losses = Losses(self.problem, make(self.problem, "auto"), self.meter)

    def solved(self) -> Solution:
        """All of it."""
        verdict = min(VERDICT, self.budget // 5)
        choice = min(CHOICE, self.budget // 10)
        self.meter.limit = self.budget - verdict - choice
        self.meter.over = self._over
        around = survey(self.losses, sets_of(self.losses), self.seed)
        search = Search(self.losses, around, self.seed)
        status = self._search(search)
        self.meter.over = lambda: False
        found = [point for run in self.ended for point in points(run)]
        if not found:
            raise ProblemError("no v was found for which the constraints allow a θ, or the budget is too small")
        value = search.continuation.value
        penalty = max([PENALTY * around.units.sigma, *(point.sigma for point in found)])
        self.meter.limit = self.budget - verdict
        with self.meter.on("choice"):
            order = choose(value, found, penalty, Dice(self.seed, 3))
        best = order[0]
        self.meter.limit = self.budget
        judged = Judge(value, Dice(self.seed, 4), around.reach_v, best).judged()
        self.losses.v.write(best.v)
        self.losses.theta.write(best.theta)
        return Solution(
            v=self.problem.v.value,
            theta=self.problem.theta.value,
            status=status,
            steps=self.step,
            f=best.f,
            q=best.q,
            history=self.history,
            certificate=Certificate(f=best.f, g=judged.g, q=best.q, tests=judged.complete(), claim=CLAIM),
            evaluations=dict(self.losses.oracle.counts),
            seconds=time.perf_counter() - self.began,
            tuned={"sigma": best.sigma, "alpha": best.alpha, "T": STEPS},
            found=distinct(self.losses, order, self.ended, around.units, around.reach_v),
            runs=len(self.ended),
            spent=dict(self.meter.spent),
            ties=judged.ties,
            prices=judged.prices,
        )

    def _search(self, search: Search) -> str:
        """Runs until something ends them; why."""
        earlier: list[Point] = []
        run: Run | None = None
        try:
            while self.runs is None or len(self.ended) < self.runs:
                if len(self.ended) % ROUND == 0:
                    earlier = [point for run in self.ended for point in points(run)]
                run = search.start(len(self.ended), earlier)
                while run.ended is None:
                    run = search.continuation.advance(run)
                    self._tell(run)
                self.ended.append(run)
                run = None
        except Spent:
            if run is not None:
                self.ended.append(run)
            if self.asked:
                return "interrupted"
            return f"{self.seconds} seconds spent" if self._over() else f"budget of {self.budget} evaluations spent"
        return f"{self.runs} runs done"

    def _over(self) -> bool:
        late = self.seconds is not None and time.perf_counter() - self.began > 0.8 * self.seconds
        return late or bool(self.asked)

    def _tell(self, run: Run) -> None:
        """A row for the history, and word to whoever wants to know."""
        self.step += 1
        seconds, counts = time.perf_counter() - self.began, self.losses.oracle.counts
        row: dict[str, float | int | str | None] = {"step": self.step - 1, "seconds": seconds}
        row |= {f"n_{kind}": number for kind, number in counts.items()}
        row |= {"run": run.number, "level": run.level, "sigma": run.sigma}
        if point := (points(run) or (None,))[-1]:
            row |= {"f": point.f, "q": point.q}
        self.history.append(row)
        if self.progress is not None:
            info = None if point is None else Info(f=torch.tensor(point.f), q=torch.tensor(point.q))
            self.progress(Progress(self.step, info, self.meter.total, seconds))
