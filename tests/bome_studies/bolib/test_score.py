"""The score of a function."""

import torch

from bome import Problem
from bome.tasks.bolib import RECORDS
from bome.tasks.bolib.record import Record
from bome_studies.bolib.score import score

PROBLEMS = ("bolib-falkliu1995", "bolib-hatzetal2013")


def _knowing(problem: Problem, budget: int, seed: int) -> bool | None:
    """Knows one solution, and takes its time."""
    record: Record = RECORDS["bolib-hatzetal2013"]
    if problem.theta.leaves[0].tolist() == list(record.start[1]) and problem.v.leaves[0].numel() == 1 and budget > 10:
        with torch.no_grad():
            for z, best in zip((problem.v.leaves[0], problem.theta.leaves[0]), record.solution, strict=True):
                z.copy_(torch.tensor(best))
    return None


def test_a_score_counts_what_is_solved_at_each_budget() -> None:
    reached = score(_knowing, PROBLEMS, (10, 20), seeds=(0, 1))
    assert [reached.solved(budget) for budget in (10, 20)] == [0, 1]
    assert [reached.solved(budget, fine=True) for budget in (10, 20)] == [0, 1]
    assert str(reached).splitlines() == [
        " evaluations   to 1 %  to 0.1 %  of 2 problems",
        "          10      0.0       0.0",
        "          20      1.0       1.0",
    ]
