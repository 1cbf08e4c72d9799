"""Results of continual learning, made up and small, for the tests of its study."""

from bome.continual.run import Summary
from bome.continual.settings import STRATEGIES
from bome_studies.continual.claims import claims
from bome_studies.continual.protocol import Candidate, Protocol
from bome_studies.continual.results import Entry, Results, Runs

DIGITS = "continual-digits"
NAMES = (*STRATEGIES, "ctn+itd:total", "ctn+bome:auto")

SMALL = Protocol(
    DIGITS,
    (
        Candidate("offline", 1, "selected", ({"theta_lr": 0.01}, {"theta_lr": 0.3})),
        Candidate("ctn+itd", 1),
        Candidate("ctn+bome", 2),
    ),
    {"η = 1": ("ctn+bome", {"eta": 1.0})},
)


DIVERGED = Summary("diverged", "NaN", 1, {}, 0.0, [], {}, {}, [])


def silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def summary_of(acc: float, nbt: float = 4.0) -> Summary:
    """A run that has ended, with these metrics."""
    numbers: dict[str, float | None] = {"acc": acc, "nbt": nbt, "ft": acc + nbt, "fm": nbt + 1}
    return Summary("finished", "", 1, {}, 3.0, [1.0, 2.0], {}, numbers, [[acc + nbt, None], [acc, acc]])


def results(bome: list[float], itd: list[float], offline: float = 85.0) -> Results:
    """The results of three strategies, with the ACC of each seed."""

    def entry(name: str, values: list[float]) -> Entry:
        return Entry(name, "selected" if name == "offline" else "published", {}, Runs([summary_of(a) for a in values]))

    entries = (entry("offline", [offline] * len(bome)), entry("ctn+itd", itd), entry("ctn+bome", bome))
    return Results("continual-pmnist", entries)


def verdicts(found: Results) -> dict[str, bool | None]:
    """What is said of each claim."""
    return {claim.text: claim.holds for claim in claims(found)}
