"""What the study of BOLIB runs: problems, contenders, budgets and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass

from bome_studies.study import Preset

BUDGETS = (300, 600, 1250, 2500, 5000)
"""Evaluations after which answers are looked at."""


@dataclass(frozen=True)
class BolibProtocol:
    """How much is run.

    Attributes:
        seeds: 0, 1, ... of what is random.
        budgets: evaluations.
        problems: names of tasks; none for all.
        contenders: names; none for all.
    """

    seeds: int
    budgets: tuple[int, ...] = BUDGETS
    problems: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()


PROTOCOLS: Mapping[Preset, BolibProtocol] = {
    "smoke": BolibProtocol(
        seeds=1,
        budgets=(100, 200),
        problems=("bolib-falkliu1995", "bolib-bard1984b"),
        contenders=("bome.solve", "bome", "start"),
    ),
    "quick": BolibProtocol(seeds=3),
    "paper": BolibProtocol(seeds=5),
}
