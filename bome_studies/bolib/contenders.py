"""Who takes part: registered methods, functions that solve a problem, and two baselines that anybody could write."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from bome.certificate import Certificate
from bome.errors import BilevelError, UnsupportedError
from bome.loop import run
from bome.nested.solve import solve
from bome.problem import Problem
from bome.runs.names import METHODS
from bome.runs.plan import plan
from bome.stopping import MaxEvaluations, Progress
from bome.tasks.bolib import Record, name_of, problem_of
from bome.tasks.bolib.search import local_minimum, reach

Solver: TypeAlias = Callable[[Problem, int, int], bool | None]
"""Solves a problem within so many evaluations, with a seed, and leaves the answer in the variables of the problem.

It returns whether it takes the answer for a solution: True, False, or None where it cannot tell.
"""

INNER_STARTS = 3
"""Of which the random search takes the lowest g."""


class Answer(NamedTuple):
    """Where a contender is at some time.

    Attributes:
        evaluations: spent so far.
        x: v.
        y: θ.
        claim: whether the contender takes this for a solution; None where it does not tell.
    """

    evaluations: int
    x: Tensor
    y: Tensor
    claim: bool | None = None


class RefusedError(Exception):
    """The contender does not take this problem."""


class Contender(Protocol):
    """Anything that answers.

    Attributes:
        random: whether a seed makes a difference.
    """

    @property
    def random(self) -> bool: ...  # noqa: D102

    def answers(self, record: Record, budgets: Sequence[int], seed: int) -> Iterator[Answer]:
        """An answer for each of the budgets, which rise."""


@dataclass(frozen=True)
class Stepped:
    """A registered method with the settings that one would take first; it is looked at on its way.

    A step is not interrupted, so that an answer may have cost a step more than the budget.
    """

    method: str
    random: bool = False

    def answers(self, record: Record, budgets: Sequence[int], seed: int) -> Iterator[Answer]:
        """Of a single run."""
        seen: list[Answer] = []
        with quiet():
            try:
                order = plan(name_of(record), self.method)
            except UnsupportedError as error:
                raise RefusedError(str(error)) from None
            problem = order.task.problem

            def look(progress: Progress) -> None:
                if len(seen) < len(budgets) and progress.evaluations >= budgets[len(seen)]:
                    seen.append(_now(problem, progress.evaluations))

            try:
                result = run(
                    problem,
                    order.method,
                    **order.optimisers()._asdict(),
                    stop=MaxEvaluations(budgets[-1]),
                    tuner=order.tuner,
                    log_every=budgets[-1],
                    progress=look,
                    refit=False,
                )
            except UnsupportedError as error:
                raise RefusedError(str(error)) from None
            except BilevelError:  # it diverged: what was seen before counts
                yield from seen
                return
        seen[-1:] = [seen[-1]._replace(claim=claim_of(result.certificate))]
        yield from seen


@dataclass(frozen=True)
class Called:
    """A function, which is called anew for each budget."""

    solver: Solver
    random: bool = True

    def answers(self, record: Record, budgets: Sequence[int], seed: int) -> Iterator[Answer]:
        """Of a run for each budget."""
        for budget in budgets:
            problem = problem_of(record)
            with quiet():
                try:
                    claim = self.solver(problem, budget, seed)
                except UnsupportedError as error:
                    raise RefusedError(str(error)) from None
                except Exception:  # whatever is wrong with a solver: the answer is what stands in the variables
                    claim = None
            yield _now(problem, budget)._replace(claim=claim)


@dataclass(frozen=True)
class RandomSearch:
    """Random v, the inner problem solved by scipy from a few random starts, and the v with the lowest f.

    One run says enough, so that it counts as not random.
    """

    random: bool = False

    def answers(self, record: Record, budgets: Sequence[int], seed: int) -> Iterator[Answer]:
        """The best so far."""
        draw = np.random.default_rng(seed)
        x_sides, y_sides = reach(record)
        best, lowest, spent = _now(problem_of(record), 0), float("inf"), 0
        for budget in budgets:
            while spent < budget:
                x, found = _drawn(draw, x_sides), []
                for _ in range(INNER_STARTS):
                    y, calls = local_minimum(record, x, _drawn(draw, y_sides).numpy())
                    spent += calls
                    found += [] if y is None else [torch.from_numpy(y)]
                if found:
                    here = min(found, key=lambda y: float(record.g(x, y)))
                    f = float(record.f(x, here))
                    if f < lowest and record.violation(x, here) <= 1e-6:
                        lowest, best = f, Answer(spent, x, here)
                if spent >= budget:
                    break
            yield best._replace(evaluations=spent)


@dataclass(frozen=True)
class Start:
    """The start of the library, projected: what one has before any work."""

    random: bool = False

    def answers(self, record: Record, budgets: Sequence[int], seed: int) -> Iterator[Answer]:
        """The same for all budgets."""
        problem = problem_of(record)
        x, y = problem.project_v(problem.point.v)[0], problem.project_theta(problem.point.theta)[0]
        yield from (Answer(0, x, y) for _ in budgets)


def nested(problem: Problem, budget: int, seed: int) -> bool | None:
    """`bome.solve` with nothing set."""
    return claim_of(solve(problem, budget=budget, seed=seed).certificate)


BASELINES: dict[str, Contender] = {"random search": RandomSearch(), "start": Start()}
SOLVE = "bome.solve"


def contenders() -> dict[str, Contender]:
    """All of them by name; methods of other packages take part as ours do."""
    variants = [f"bome:{name}" for name in ("paper", "auto") if name in METHODS["bome"].variants]
    ours = {name: Stepped(name) for name in ("bome", *variants, *(name for name in METHODS if name != "bome"))}
    return {SOLVE: Called(nested), **ours, **BASELINES}


def claim_of(certificate: Certificate) -> bool | None:
    """Whether a certificate takes the point for a solution: all tests passed, one failed, or it cannot tell."""
    passed = [test.passed for test in certificate.tests]
    if False in passed:
        return False
    return None if None in passed or not passed else True


def quiet() -> warnings.catch_warnings:
    """Warnings of many hundred runs are of no use."""
    return warnings.catch_warnings(action="ignore")


def _now(problem: Problem, evaluations: int) -> Answer:
    (x,), (y,) = ([leaf.clone() for leaf in leaves] for leaves in problem.point)
    return Answer(evaluations, x, y)


def _drawn(draw: np.random.Generator, sides: Sequence[tuple[float, float]]) -> Tensor:
    return torch.from_numpy(np.array([draw.uniform(low, high) if low < high else low for low, high in sides]))
