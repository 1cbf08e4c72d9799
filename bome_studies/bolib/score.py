"""The score of a solver of yours on the problems of BOLIB."""

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bome.tasks.bolib import RECORDS
from bome_studies.bolib.contenders import Called, Solver
from bome_studies.bolib.protocol import BUDGETS
from bome_studies.bolib.trials import Outcome, outcome_of


class Score(NamedTuple):
    """What a solver reaches.

    Attributes:
        outcomes: of the seeds, by the name of the problem.
        budgets: at which answers were judged.
    """

    outcomes: dict[str, list[Outcome]]
    budgets: tuple[int, ...]

    def __str__(self) -> str:
        """How many problems are solved at each budget, in the mean over the seeds."""
        lines = [f"{'evaluations':>12} {'to 1 %':>8} {'to 0.1 %':>9}  of {len(self.outcomes)} problems"]
        for budget in self.budgets:
            rough, fine = (self.solved(budget, fine=fine) for fine in (False, True))
            lines.append(f"{budget:>12,} {rough:>8.1f} {fine:>9.1f}")
        return "\n".join(lines)

    def solved(self, budget: int, *, fine: bool = False) -> float:
        """How many problems are solved at this budget, in the mean over the seeds."""
        each = self.outcomes.values()
        return sum(statistics.fmean(outcome.solved(budget, fine=fine) for outcome in seeds) for seeds in each)


def score(
    solver: Solver, problems: Iterable[str] = RECORDS, budgets: Sequence[int] = BUDGETS, seeds: Sequence[int] = (0,)
) -> Score:
    """Judge a solver as the study of BOLIB judges all others.

    Args:
        solver: a function of a problem, a budget of evaluations and a seed. It leaves its answer in the variables of
            the problem, and returns whether it takes it for a solution: True, False, or None. It is trusted to keep to
            the budget: every gradient of f or g, row of the Jacobian of a constraint, or value alone counts one.
        problems: names of tasks.
        budgets: evaluations, in rising order; the solver is called anew for each.
        seeds: given to the solver.
    """
    contender, given = Called(solver), tuple(budgets)
    outcomes = {name: [outcome_of(contender, RECORDS[name], given, seed) for seed in seeds] for name in problems}
    return Score(outcomes, given)
