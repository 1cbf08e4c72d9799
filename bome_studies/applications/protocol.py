"""What the study of the applications runs: which of them, who takes part, how much, and with how many seeds."""

from collections.abc import Mapping
from dataclasses import dataclass

from bome_studies.applications.contenders import FIRST
from bome_studies.applications.problems.pictures import Pool
from bome_studies.study import Preset

FACTORS = (0.3, 1.0, 3.0)
"""Of the learning rate of v, among which it is chosen for those that are tuned."""

TUNING_SEED = 100
"""Of the trials that choose; no other trial has it."""


@dataclass(frozen=True)
class ApplicationsProtocol:
    """How much is run.

    Attributes:
        seeds: 0, 1, ...
        budget: evaluations, the same for everybody.
        contenders: names, the most telling first; none for all.
        tuned: those that also take part with a learning rate of v that is chosen for each application.
        applications: names; none for all.
        pool: of the pictures.
    """

    seeds: int
    budget: int
    contenders: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    pool: Pool = "mnist"


PROTOCOLS: Mapping[Preset, ApplicationsProtocol] = {
    "smoke": ApplicationsProtocol(
        seeds=1,
        budget=60,
        contenders=("itd", "bome", "ogda"),
        applications=("anil", "distillation", "saddle"),
        pool="digits",
    ),
    "quick": ApplicationsProtocol(seeds=1, budget=3000, contenders=FIRST),
    "paper": ApplicationsProtocol(seeds=5, budget=10_000, tuned=("itd", "aid-cg", "bome")),
}
