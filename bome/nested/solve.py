"""Solve a bilevel problem with nothing to choose.

    1:  survey the start: reaches and units                                             (`survey`)
    2:  runs, while the budget lasts: ψ_σ descended in v for growing σ                  (`search`, `continuation`)
    3:  choose: the lowest f + σ q, with q measured again                               (`choice`)
    4:  judge: f over the inner minimisers, shadow prices, the verdict                  (`sensitivity`, `verdict`)

All of it is paid from one budget of evaluations.
"""

from collections.abc import Callable
from typing import Any

from bome._checks import check_count, check_positive
from bome.certificate import Certificate
from bome.core.signals import signals
from bome.core.threads import threads_for
from bome.errors import ProblemError
from bome.loop import Record
from bome.nested.choice import choose
from bome.nested.losses import check_problem
from bome.nested.result import Solution, distinct
from bome.nested.search import PENALTY
from bome.nested.session import Session, Terms
from bome.nested.survey import Dice
from bome.nested.value import STEPS
from bome.nested.verdict import CLAIM, Judge
from bome.problem import Problem
from bome.solver import Solver
from bome.stopping import Progress

BUDGET = 5_000
"""Evaluations where nothing else is asked for."""


def solve(
    problem: Problem,
    *,
    budget: int = BUDGET,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    inner: Solver | None = None,
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
        jobs: how many runs are done side by side, up to 4; the result does not depend on it.
        inner: any program that solves the inner problem, instead of descents of g.
        data: not yet: the losses hold all of their data.
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
    check_problem(problem)
    size = sum(leaf.numel() for leaf in (*problem.v.leaves, *problem.theta.leaves))
    with threads_for(size), signals(jobs == 1) as asked:
        session = Session(problem, Terms(budget, seconds, runs, seed, jobs, inner), asked, record, progress)
        with session.history:
            status = session.run()
            return _concluded(problem, session, status)


def _concluded(problem: Problem, session: Session, status: str) -> Solution:
    """Lines 3 and 4; the solution is left in the variables."""
    terms, losses, search, state = session.terms, session.losses, session.search, session.state
    found, survey, value = state.found, search.survey, search.continuation.value
    if not found:
        raise ProblemError(_nothing(session))
    search.refresh()
    penalty = max([PENALTY * survey.units.sigma, *(point.sigma for point in found)])
    session.allow(terms.budget - terms.verdict)
    with losses.meter.on("choice"):
        order = choose(value, found, penalty, survey.theta, Dice(terms.seed, 3))
    session.allow(terms.budget)
    best = order[0]
    judged = Judge(value, Dice(terms.seed, 4), survey.v.reach, survey.theta, best).judged()
    losses.v.write(best.v)
    losses.theta.write(best.theta)
    certificate = Certificate(f=best.f, g=judged.g, q=best.q, tests=judged.complete(), claim=CLAIM)
    session.history.append({**session.row(), **certificate.numbers()})
    return Solution(
        v=problem.v.value,
        theta=problem.theta.value,
        status=status,
        steps=state.steps,
        f=best.f,
        q=best.q,
        history=session.history,
        certificate=certificate,
        evaluations=dict(losses.oracle.counts),
        seconds=session.seconds,
        tuned={"sigma": best.sigma, "alpha": best.alpha, "T": STEPS},
        state=session.saved(),
        found=distinct(losses, order, state.begun, survey.units, survey.v.reach),
        runs=len(state.begun),
        spent=dict(losses.meter.spent),
        ties=judged.ties,
        prices=judged.prices,
    )


def _nothing(session: Session) -> str:
    """Why there is no point at all."""
    if session.losses.layout is not None and session.state.begun:
        return "no v was found for which some θ satisfies the constraints: are they right, is there such a point?"
    return "the budget or the seconds ended before the first v was looked at: allow more"
