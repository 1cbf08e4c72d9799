"""Trials: a contender on an application, judged by what its v is worth."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bome._typing import Report
from bome.runs.choice import mean_and_error
from bome.storage import jsonfile
from bome.storage.memo import Memo
from bome_studies.applications.contenders import FIRST, Contender, RefusedError, names
from bome_studies.applications.problems import APPLICATIONS
from bome_studies.applications.problems.application import Worth
from bome_studies.applications.problems.pictures import Pool, pictures
from bome_studies.applications.protocol import FACTORS, TUNING_SEED, ApplicationsProtocol
from bome_studies.numbers import Number
from bome_studies.parts import PARTS, results_of

START = "start"
"""v as it is at its start: what one has before any work."""

BASELINES = {
    "meta-weights": ("rows of f alone",),
    "layer-decay": ("one decay for all",),
    "operations": ("best of all 16",),
    "adversary": ("no adversary",),
    "learned-loss": ("the right matrix", "rows of f alone"),
    "penalties": ("one penalty for all",),
}
"""What anybody would try by hand, by application."""

TUNED = ", tuned"


@dataclass(frozen=True)
class Trial:
    """What is run at once.

    Attributes:
        application: its name.
        contender: its name, or that of a baseline.
        seed: of the application and of the batches.
        factor: of the learning rate of v.
        budget: evaluations.
        pool: of the pictures.
    """

    application: str
    contender: str
    seed: int
    factor: float
    budget: int
    pool: Pool

    @property
    def name(self) -> str:
        """Of its file."""
        words = self.contender.replace(":", "-").replace(" ", "-")
        return f"{self.application}/{words}-{self.factor:g}-seed{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """How a trial went; None for what is no number.

    Attributes:
        F: what v is worth, the lower the better.
        test: the share of right answers of models trained with v.
        live: f at the θ of the run.
        evaluations: spent by the contender; the judge's are not counted.
        seconds: spent by the contender.
        note: why there is no answer, where there is none.
        refused: whether the contender does not take this problem.
    """

    F: float | None
    test: float | None
    live: float | None
    evaluations: int
    seconds: float
    note: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Results:
    """The outcomes that there are.

    Attributes:
        by_name: the outcome of each seed that was run, by application and contender.
        wanted: how many seeds there should be.
        factors: those chosen for the tuned contenders, by application and contender.
        budget: evaluations of each trial.
    """

    by_name: Mapping[str, Mapping[str, Mapping[int, Outcome]]]
    wanted: int
    factors: Mapping[tuple[str, str], float]
    budget: int

    @property
    def contenders(self) -> list[str]:
        """All that have an outcome somewhere, baselines of single applications left out."""
        own = {name for baselines in BASELINES.values() for name in baselines}
        seen = {name: None for outcomes in self.by_name.values() for name in outcomes if name not in own}
        return list(seen)

    @property
    def missing(self) -> int:
        """How many trials have not been run."""
        return sum(
            self.wanted - len(self.outcomes(application, contender))
            for application in self.by_name
            for contender in (*self.contenders, *BASELINES.get(application, ()))
        )

    def outcomes(self, application: str, contender: str) -> list[Outcome]:
        """Of the seeds that were run."""
        return list(self.by_name.get(application, {}).get(contender, {}).values())

    def values(self, application: str, contender: str, what: str = "F") -> list[float]:
        """A number of each seed that has it."""
        each = [getattr(outcome, what) for outcome in self.outcomes(application, contender)]
        return [value for value in each if value is not None]

    def mean(self, application: str, contender: str, what: str = "F") -> Number | None:
        """Mean and standard error; None unless each seed that was run has the number."""
        values = self.values(application, contender, what)
        complete = values and len(values) == len(self.outcomes(application, contender))
        return mean_and_error(values) if complete else None

    def ranked(self, application: str, among: Sequence[str]) -> list[tuple[str, float, float | None]]:
        """Those with a mean F over all seeds, the lowest first."""
        means = [(name, self.mean(application, name)) for name in among if self.is_complete(application, name)]
        known = [(name, *mean) for name, mean in means if mean is not None]
        return sorted(known, key=lambda entry: entry[1])

    def is_complete(self, application: str, contender: str) -> bool:
        """Whether all seeds were run."""
        return len(self.outcomes(application, contender)) == self.wanted


def measured(protocol: ApplicationsProtocol, folder: Path, report: Report, workers: int) -> Results:
    """The outcomes of all trials, the telling ones first; those that are in the folder are read."""
    telling = {START, *FIRST, *(name for baselines in BASELINES.values() for name in baselines)}
    first = [trial for trial in plain(protocol).values() if trial.contender in telling]
    results_of(first, tried, folder, report, workers, restored)
    results_of(tuning(protocol), tried, folder, report, workers, restored)
    results_of(list(chosen(protocol, folder).values()), tried, folder, report, workers, restored)
    results_of(list(plain(protocol).values()), tried, folder, report, workers, restored)
    return collected(protocol, folder)


def collected(protocol: ApplicationsProtocol, folder: Path) -> Results:
    """The outcomes that are in the folder; nothing is run."""
    by_name: dict[str, dict[str, dict[int, Outcome]]] = {name: {} for name in _applications(protocol)}
    trials = {**plain(protocol), **chosen(protocol, folder)}
    for (application, contender, seed), trial in trials.items():
        outcome = _kept(folder, trial)
        if outcome is not None:
            by_name[application].setdefault(contender, {})[seed] = outcome
    factors = {
        (application, contender): trial.factor
        for (application, contender, _), trial in trials.items()
        if contender.endswith(TUNED)
    }
    return Results(by_name, protocol.seeds, factors, protocol.budget)


def plain(protocol: ApplicationsProtocol) -> dict[tuple[str, str, int], Trial]:
    """The trials with first settings and those of baselines, one seed after the other."""
    trials = {}
    for seed in range(protocol.seeds):
        for application in _applications(protocol):
            for name in (START, *BASELINES.get(application, ())):
                trials[application, name, seed] = _trial(protocol, application, name, seed)
        for contender in protocol.contenders or names():
            for application in _applications(protocol):
                trials[application, contender, seed] = _trial(protocol, application, contender, seed)
    return trials


def tuning(protocol: ApplicationsProtocol) -> list[Trial]:
    """The trials that choose."""
    return [trial for trials in _candidates(protocol).values() for trial in trials]


def chosen(protocol: ApplicationsProtocol, folder: Path) -> dict[tuple[str, str, int], Trial]:
    """The trials with chosen settings, where all among which they are chosen have ended: the lowest F wins."""
    trials = {}
    for (application, contender), candidates in _candidates(protocol).items():
        ended = [(trial, outcome) for trial in candidates if (outcome := _kept(folder, trial)) is not None]
        if len(ended) == len(candidates):
            best, _ = min(ended, key=lambda pair: math.inf if pair[1].F is None else pair[1].F)
            for seed in range(protocol.seeds):
                key = application, f"{contender}{TUNED}", seed
                trials[key] = _trial(protocol, application, contender, seed, best.factor)
    return trials


def tried(trial: Trial) -> Outcome:
    """One trial."""
    application = APPLICATIONS[trial.application](pictures(trial.pool), trial.seed)
    if trial.contender == START:
        return _outcome(application.judge())
    if trial.contender in application.by_hand:
        return _outcome(application.by_hand[trial.contender]())
    start = time.perf_counter()
    try:
        live = Contender(trial.contender).run(application, trial.budget, trial.seed, trial.factor)
    except RefusedError as error:
        return Outcome(None, None, None, 0, time.perf_counter() - start, str(error), refused=True)
    seconds = time.perf_counter() - start
    if math.isnan(live.f):
        return Outcome(None, None, None, live.evaluations, seconds, live.note)
    return _outcome(application.judge(), _finite(live.f), live.evaluations, seconds, live.note)


def restored(stored: Any) -> Outcome:
    """An outcome from its file."""
    return Outcome(**stored)


def _outcome(
    worth: Worth, live: float | None = None, evaluations: int = 0, seconds: float = 0.0, note: str = ""
) -> Outcome:
    return Outcome(_finite(worth.F), worth.test, live, evaluations, seconds, note)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _applications(protocol: ApplicationsProtocol) -> tuple[str, ...]:
    return protocol.applications or tuple(APPLICATIONS)


def _trial(protocol: ApplicationsProtocol, application: str, contender: str, seed: int, factor: float = 1.0) -> Trial:
    return Trial(application, contender, seed, factor, protocol.budget, protocol.pool)


def _candidates(protocol: ApplicationsProtocol) -> dict[tuple[str, str], list[Trial]]:
    return {
        (application, contender): [_trial(protocol, application, contender, TUNING_SEED, factor) for factor in FACTORS]
        for contender in protocol.tuned
        for application in _applications(protocol)
    }


def _kept(folder: Path, trial: Trial) -> Outcome | None:
    """The outcome of a trial, if it has ended."""
    stored = Memo(folder / PARTS).read(trial.name, jsonfile.plain(asdict(trial)))
    return None if stored is None else restored(stored)
