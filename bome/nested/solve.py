"""Solve a bilevel problem with nothing to choose.

    1:  survey the start: reaches and units                                             (`survey`)
    2:  runs, while the budget lasts: ψ_σ descended in v for growing σ                  (`search`, `continuation`)
    3:  choose: the lowest f + σ q, with q measured again                               (`choice`)
    4:  judge: f over the inner minimisers, shadow prices, the verdict                  (`sensitivity`, `verdict`)
    5:  if it is not solved, one more run from the best v seen by the judge; 3 and 4 again

All of it is paid from one budget of evaluations. With minibatches there is a race instead (`bome.arms`).
"""

from collections.abc import Callable, Sequence
from typing import Literal, overload

from bome._checks import check_choice, check_count, check_positive
from bome.arms.arm import Choices
from bome.arms.race import Terms as RaceTerms
from bome.arms.result import Trained
from bome.arms.session import Session as RaceSession
from bome.certificate import Certificate
from bome.core.signals import obey, signals
from bome.core.threads import threads_for
from bome.data.streams import Data
from bome.errors import ProblemError
from bome.loop import Record
from bome.nested.choice import choose, exact
from bome.nested.continuation import Run, points
from bome.nested.losses import Spent, check_problem
from bome.nested.result import Solution, distinct
from bome.nested.search import PENALTY
from bome.nested.session import Session, Terms
from bome.nested.survey import Dice
from bome.nested.value import STEPS, Point
from bome.nested.verdict import CLAIM, Judge, Judgement, agreement
from bome.problem import Problem
from bome.solver import Solver
from bome.stopping import Progress

BUDGET, BUDGET_SAMPLED = 5_000, 20_000
"""Evaluations where nothing else is asked for: with all data at once, and with minibatches."""
HORIZONS = 20
"""The budget as a multiple of the horizon, where the horizon is not given; it must be at least `LEAST_HORIZONS`."""
LEAST_HORIZONS = 6
NOTHING = "the budget or the seconds ended before the first v was looked at: allow more"
"""What is said where there is no answer yet."""
GO_ON = 0.9
"""The share of the seconds after which line 5 ends."""
ArmName = Literal["young", "old"]


@overload
def solve(
    problem: Problem,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    inner: Solver | None = None,
    data: None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution: ...
@overload
def solve(
    problem: Problem,
    *,
    data: Data,
    budget: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    horizon: int | None = None,
    arm: ArmName | None = None,
    lr: float | None = None,
    steps: int | None = None,
    reach: float | None = None,
    outer_lr: float | None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Trained: ...
def solve(
    problem: Problem,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    inner: Solver | None = None,
    data: Data | None = None,
    horizon: int | None = None,
    arm: ArmName | None = None,
    lr: float | None = None,
    steps: int | None = None,
    reach: float | None = None,
    outer_lr: float | None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution | Trained:
    """Solve a bilevel problem with nothing to choose.

    At the end of the budget, of the seconds or at Ctrl-C one gets the best point so far, with its verdict. Of several
    solutions of the inner problem the one is taken that is best for f.

    With `data` the losses see minibatches, and θ may be a network: v is learned by two arms and judged by training θ
    anew (`docs/solve.md`). What comes after `data` below is chosen where it is not given.

    Args:
        problem: the losses, constraints and live variables; the solution is left in them.
        budget: the most evaluations: gradients of f or of g, rows of the Jacobian of the constraints, values alone. By
            default 5,000, with `data` 20,000.
        seconds: the most seconds.
        runs: the most runs from different starts; by default as many as the budget allows. Without `data`.
        seed: of random starts; equal seeds give equal results.
        jobs: how many runs are done side by side, up to 4; the result does not depend on it. Without `data`.
        inner: any program that solves the inner problem, instead of descents of g. Without `data`.
        data: batches for f and g; by default the losses hold all of their data.
        horizon: for how many steps θ is trained when v is judged: as long as you will train it. By default a twentieth
            of the budget.
        arm: "young" or "old", the only arm to run.
        lr: α, the step size of θ.
        steps: T, the inner steps in an outer step.
        reach: ρ, how far the probe goes from θ, relative to it; σ follows.
        outer_lr: the learning rate of Adam on v, which falls to 0 in each stage.
        record: where to write history and checkpoints; nothing is written by default.
        progress: called after every evaluation of the value function, with `data` after every outer step.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem must be a Problem, got {type(problem).__name__}")
    sampled = data is not None
    budget = budget if budget is not None else BUDGET_SAMPLED if sampled else BUDGET
    check_count("budget", budget)
    if seconds is not None:
        check_positive("seconds", seconds)
    with_data = {"horizon": horizon, "arm": arm, "lr": lr, "steps": steps, "reach": reach, "outer_lr": outer_lr}
    without = {"runs": runs, "jobs": None if jobs == 1 else jobs, "inner": inner}
    for name, value in (without if sampled else with_data).items():
        if value is not None:
            raise ProblemError(f"{name} is for problems {'without' if sampled else 'with'} data=: leave it out")
    problem.check_unchanged()
    problem.enter_sets()
    size = sum(leaf.numel() for leaf in (*problem.v.leaves, *problem.theta.leaves))
    if data is not None:
        terms = _race_terms(problem, data, budget, horizon, Choices(lr, steps, reach, outer_lr, arm))
        with signals() as asked:
            race = RaceSession(problem, data, terms, seconds=seconds, asked=asked, record=record, progress=progress)
            with race.history:
                return race.result(race.run())
    check_count("jobs", jobs)
    if runs is not None:
        check_count("runs", runs)
    check_problem(problem)
    with threads_for(size), signals(jobs == 1) as asked:
        try:
            session = Session(problem, Terms(budget, seconds, runs, seed, jobs, inner), asked, record, progress)
        except Spent:
            obey(asked)
            raise ProblemError(NOTHING) from None
        with session.history:
            status = session.run()
            if not session.state.found:
                obey(asked)
            return _concluded(problem, session, status)


def _race_terms(problem: Problem, data: Data, budget: int, horizon: int | None, choices: Choices) -> RaceTerms:
    """What was asked for, checked."""
    if not isinstance(data, Data):
        raise ProblemError(f"data must be Data(outer=..., inner=...), got {type(data).__name__}")
    if not problem.v.given:
        raise ProblemError("with minibatches solve learns v, and there is none: take bome.run with bome or penalty")
    if problem.constraints:
        raise ProblemError("solve takes no constraints with minibatches: put all data into the losses, or use bome.run")
    for name in ("lr", "reach", "outer_lr"):
        if getattr(choices, name) is not None:
            check_positive(name, getattr(choices, name))
    if choices.steps is not None:
        check_count("steps", choices.steps)
    if choices.arm is not None:
        check_choice("arm", choices.arm, ArmName)
    return RaceTerms(budget, horizon_for(budget, horizon), choices)


def horizon_for(budget: int, horizon: int | None) -> int:
    """For how many steps θ is trained when a v is judged, as asked for or chosen; refused where that takes too much."""
    if horizon is None:
        return max(budget // HORIZONS, 1)
    check_count("horizon", horizon)
    if LEAST_HORIZONS * horizon > budget:
        raise ProblemError(f"a horizon of {horizon} needs a budget of at least {LEAST_HORIZONS * horizon}: raise it")
    return horizon


def _concluded(problem: Problem, session: Session, status: str) -> Solution:
    """Lines 3 to 5; the solution is left in the variables."""
    terms, losses, search, state = session.terms, session.losses, session.search, session.state
    begun, survey = state.begun, search.survey
    if not state.found:
        raise ProblemError(_nothing(session))
    before = losses.meter.total
    order, judged = _judged(session, begun)
    left = terms.budget - losses.meter.total - round(1.2 * (losses.meter.total - before))
    if judged.onward is not None and left > 0:
        session.allow(losses.meter.total + left, GO_ON)
        begun = (*begun, session.onward(judged.onward))
        order, judged = _judged(session, begun)
    best = order[0]
    losses.v.write(best.v)
    losses.theta.write(best.theta)
    found = distinct(losses, order, begun, survey.units, survey.v.reach)
    tests = (*judged.complete(), agreement(found[0].runs, len(begun)))
    certificate = Certificate(f=best.f, g=judged.g, q=best.q, tests=tests, claim=CLAIM)
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
        found=found,
        runs=len(begun),
        spent=dict(losses.meter.spent),
        ties=judged.ties,
        prices=judged.prices,
    )


def _judged(session: Session, runs: Sequence[Run]) -> tuple[list[Point], Judgement]:
    """Lines 3 and 4: the points in their order, and what was found at the best."""
    terms, losses, search = session.terms, session.losses, session.search
    found, survey, value = [point for run in runs for point in points(run)], search.survey, search.continuation.value
    search.refresh()
    penalty = max([PENALTY * survey.units.sigma, *(point.sigma for point in found)])
    before = losses.meter.total
    session.allow(max(terms.budget - terms.verdict - terms.exact, before))
    with losses.meter.on("choice"):
        order = choose(value, found, penalty, survey.theta, Dice(terms.seed, 3))
        session.allow(terms.budget)
        order[0] = exact(value, order[0], penalty)
    return order, Judge(value, Dice(terms.seed, 4), survey.v.reach, survey.theta, order[0]).judged()


def _nothing(session: Session) -> str:
    """Why there is no point at all."""
    if session.losses.layout is not None and session.state.begun:
        return "no v was found for which some θ satisfies the constraints: are they right, is there such a point?"
    return NOTHING
