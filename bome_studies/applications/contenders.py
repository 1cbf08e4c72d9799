"""Who takes part: the registered methods with settings that one would take first, and `bome.solve` with nothing set."""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from torch.optim import SGD

import bome
from bome.errors import BilevelError, UnsupportedError
from bome.loop import run
from bome.methods import Method
from bome.methods.base import check_accepted
from bome.runs.names import METHODS
from bome.runs.plan import build
from bome.stopping import MaxEvaluations
from bome.tasks.task import Settings
from bome_studies.applications.problems import Application

SOLVE = "bome.solve"
OWN = "bome.solve, its own budget"
"""5,000 evaluations where a problem has no minibatches, 20,000 where it has: whatever others are given."""
FIRST = (SOLVE, "itd", "aid-cg", "bome", "bome-z", "probe:young", "probe")
"""They are run before the others."""


class Live(NamedTuple):
    """How a run ended; the answer stands in the variables of the problem.

    Attributes:
        f: f at the live θ; NaN where the run diverged.
        evaluations: what was spent.
        note: why there is no answer or which choice was made; empty if there is nothing to say.
    """

    f: float
    evaluations: int
    note: str = ""


class RefusedError(Exception):
    """The contender does not take this problem."""


@dataclass(frozen=True)
class Contender:
    """A method by its name on the command line, or `bome.solve` with our budget or with its own.

    Attributes:
        name: of the method, with a variant after ":" where it is one.
    """

    name: str

    def run(self, application: Application, budget: int, seed: int, factor: float = 1.0) -> Live:
        """Leave an answer in the variables of the problem.

        Args:
            application: with fresh variables.
            budget: evaluations; a method that steps may need one step more.
            seed: of the batches.
            factor: of the learning rate of v.
        """
        with warnings.catch_warnings(action="ignore"):
            try:
                if self.name in (SOLVE, OWN):
                    return _solved(application, budget if self.name == SOLVE else None, seed)
                return _stepped(self.name, application, budget, seed, factor)
            except UnsupportedError as error:
                raise RefusedError(str(error)) from None
            except BilevelError as error:  # it diverges, or the budget is too small for an answer
                return Live(math.nan, budget, str(error))


def names() -> tuple[str, ...]:
    """All of them; methods of other packages take part as ours do."""
    others = (OWN, "probe:symmetric", *(name for name in METHODS if name not in FIRST))
    return FIRST + others


def _solved(application: Application, budget: int | None, seed: int) -> Live:
    problem = application.problem
    if application.inner is None and application.outer is None and not problem.modules:
        solution = bome.solve(problem, budget=budget, seed=seed)
        return Live(solution.f, sum(solution.evaluations.values()))
    trained = bome.solve(problem, budget=budget, seed=seed, data=application.data(seed))
    return Live(trained.live, sum(trained.evaluations.values()), trained.arm)


def _stepped(name: str, application: Application, budget: int, seed: int, factor: float) -> Live:
    problem, first = application.problem, application.first
    method = method_of(name, application, budget)
    check_accepted(problem, method)
    result = run(
        problem,
        method,
        outer_opt=first.outer_opt(problem.v.leaves, factor),
        inner_opt=SGD(problem.theta.leaves, first.inner_lr, momentum=first.momentum),
        data=application.data(seed, fixed=hasattr(method, "inner_parts")),
        stop=MaxEvaluations(budget),
        log_every=budget,
        refit=False,  # the judge of the application does it
    )
    return Live(result.f, sum(result.evaluations.values()))


def method_of(name: str, application: Application, budget: int) -> Method:
    """A method with the first settings of an application; steps sizes of its own are those of the inner steps."""
    kind, first = METHODS[name.partition(":")[0]], application.first
    settings = Settings(
        steps=max(budget // (2 * first.inner_steps + 2), 1),
        inner_steps=first.inner_steps,
        inner_lr=first.inner_lr,
        outer_lr=first.outer_lr,
        theta_lr=first.inner_lr,
        momentum=first.momentum,
        inner_momentum=first.momentum,
    )
    parts = {"inner_parts": application.inner, "outer_parts": application.outer}
    values = {key: 1 if source is None else source.parts for key, source in parts.items()}
    variant = name.partition(":")[2]
    return build(kind, settings, {**values, **(kind.variants[variant] if variant else {})})
