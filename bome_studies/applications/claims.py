"""The aims of the study of the applications, its tables, and its rows of numbers."""

import math
from collections.abc import Iterator

from bome_studies.applications.contenders import OWN, SOLVE
from bome_studies.applications.trials import BASELINES, START, Outcome, Results
from bome_studies.numbers import digits
from bome_studies.study import Claim, Preset, Row, Table

GAMES = ("saddle", "bilinear", "adversary")
"""The saddle games, which count as one application."""

DISTANCES, EXACT = ("saddle", "bilinear"), 1e-3
"""Those whose F is a distance from the solution: below this share of that at the start, it is there."""

TESTS = {"distillation": 0.845, "meta-weights": 0.83, "learned-loss": 0.83}
"""The share of right answers that models trained with v should reach."""

DIRECT = ("itd", "aid-cg")
"""Those that penalties should not be behind."""


def groups(results: Results) -> dict[str, tuple[str, ...]]:
    """The applications by the names they count under."""
    own = {name: (name,) for name in results.by_name if name not in GAMES}
    games = tuple(name for name in GAMES if name in results.by_name)
    return {**own, **({"saddle games": games} if games else {})}


def claims(results: Results) -> Iterator[Claim]:
    """Each aim, with what the trials show; open where trials are missing."""
    known = {group: _is_level(results, names) for group, names in groups(results).items()}
    level = [group for group, holds in known.items() if holds]
    behind = [group for group, holds in known.items() if holds is False]
    yield Claim(
        "With nothing set it is within one standard error of the best method, in F, in all applications but one",
        "aim",
        SOLVE,
        f"{len(level)} of {len(known)}; behind: {', '.join(behind) or 'none'}; not all is run: {_open(known)}",
        len(behind) <= 1 if None not in known.values() else None,
    )
    yield _against(results, "layer-decay", ("one decay for all",), 1.03, "one decay chosen by hand, and 3 %")
    for application, least in TESTS.items():
        mean = results.mean(application, SOLVE, "test") if _complete(results, application) else None
        yield Claim(
            f"{application}: models trained with its v are right on at least {least:.3f} of test",
            "aim",
            SOLVE,
            "not all seeds are run" if mean is None else digits(mean),
            None if mean is None else mean[0] >= least,
        )
    yield _against(results, "penalties", DIRECT, 1.0, "itd and aid-cg")


def table(results: Results) -> Table:
    """F of every contender on every application, with the number of seeds where not all were run."""
    applications = list(results.by_name)
    rows = [(name, *(_cell(results, application, name) for application in applications)) for name in results.contenders]
    return Table(("", *applications), tuple(rows))


def by_hand(results: Results) -> Table:
    """The baselines of single applications."""
    rows = [
        (application, name, _cell(results, application, name), _share(results, application, name))
        for application in results.by_name
        for name in BASELINES.get(application, ())
    ]
    return Table(("application", "by hand", "F", "test"), tuple(rows))


def best(results: Results) -> Table:
    """The three best of each application, over the seeds that were run."""
    rows = []
    for application in results.by_name:
        means = {name: results.mean(application, name) for name in results.contenders if name != START}
        known = sorted((mean[0], name) for name, mean in means.items() if mean is not None)
        told = [f"{name} {_cell(results, application, name)}" for _, name in known[:3]]
        rows.append((application, _cell(results, application, START), *told, *["–"] * (3 - len(told))))
    return Table(("application", "F at the start", "best", "second", "third"), tuple(rows))


def right_answers(results: Results) -> Table:
    """The share of right answers of models trained with v."""
    applications = [
        name for name in results.by_name if any(results.values(name, one, "test") for one in results.contenders)
    ]
    rows = [
        (name, *(_share(results, application, name) for application in applications)) for name in results.contenders
    ]
    return Table(("", *applications), tuple(rows))


def rows_of(results: Results, preset: Preset, command: str) -> Iterator[Row]:
    """All numbers."""
    for application, own in results.by_name.items():
        for contender, outcomes in own.items():
            for metric in ("F", "test", "live", "evaluations", "seconds"):
                mean, seeds = results.mean(application, contender, metric), len(outcomes)
                if mean is not None:
                    yield Row(application, contender, "", metric, *mean, seeds, preset, command)


def _is_level(results: Results, applications: tuple[str, ...]) -> bool | None:
    """Whether `bome.solve` is within a standard error of the best in each of them."""
    others = [name for name in results.contenders if name not in (SOLVE, OWN)]
    for application in applications:
        rest = results.ranked(application, others)
        if not _complete(results, application) or not rest:
            return None
        own, (_, mean, error) = results.mean(application, SOLVE), rest[0]
        start = results.mean(application, START)
        solved = EXACT * start[0] if application in DISTANCES and start is not None else 0.0
        if own is None or own[0] > max(mean + math.hypot(error or 0.0, own[1] or 0.0), solved):
            return False
    return True


def _against(results: Results, application: str, others: tuple[str, ...], factor: float, text: str) -> Claim:
    own = results.mean(application, SOLVE) if _complete(results, application) else None
    rest = results.ranked(application, others)
    found = "; ".join(f"{name} {digits((mean, error))}" for name, mean, error in rest)
    return Claim(
        f"{application}: F is at or below that of {text}",
        "aim",
        SOLVE,
        f"{'not all seeds are run' if own is None else digits(own)}; {found or 'the others likewise'}",
        None if own is None or len(rest) < len(others) else own[0] <= factor * rest[0][1],
    )


def _complete(results: Results, application: str) -> bool:
    """Whether `bome.solve` has run with all seeds, and took the problem."""
    outcomes = results.outcomes(application, SOLVE)
    return results.is_complete(application, SOLVE) and not any(outcome.refused for outcome in outcomes)


def _cell(results: Results, application: str, contender: str) -> str:
    outcomes = results.outcomes(application, contender)
    if not outcomes:
        return "not run"
    if outcomes[0].refused:
        return "refused"
    lost = sum(_is_lost(outcome) for outcome in outcomes)
    if lost:
        return f"diverges ({lost} of {len(outcomes)})"
    mean = results.mean(application, contender)
    star = "" if results.is_complete(application, contender) else f" ({len(outcomes)}/{results.wanted})"
    return "–" if mean is None else digits(mean) + star


def _share(results: Results, application: str, contender: str) -> str:
    mean = results.mean(application, contender, "test")
    return "–" if mean is None else digits(mean)


def _is_lost(outcome: Outcome) -> bool:
    return outcome.F is None and outcome.test is None


def _open(known: dict[str, bool | None]) -> str:
    return ", ".join(group for group, holds in known.items() if holds is None) or "none"
