"""What `solve` gives back where there are minibatches, and what there is to say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bome.arms.arm import KINDS
from bome.arms.race import FIRST, rounds_of
from bome.certificate.verdict import Certificate, Test
from bome.loop import Result
from bome.worth import Refit

CLAIM = "confirmed by training θ anew"
"""What the verdict says where all tests are passed."""


@dataclass(frozen=True)
class Trained(Result):
    """The outcome of `solve` with minibatches: `f` is F(v), and `theta` was trained anew with v, on g alone.

    Attributes:
        arm: which round has found v: "young", "old 2" for the second round of the old arm; "start" if none was better.
        live: f at the live θ of that arm when it ended.
        arms: what was found when θ was trained anew with the v of the start and of each round.
        spent: evaluations, by what they were for.
        warnings: what a person should know, in plain words; empty if nothing is wrong.
    """

    arm: str = FIRST
    live: float = float("nan")
    arms: Mapping[str, Refit] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def certificate(arms: Mapping[str, Refit], winner: str) -> Certificate:
    """A verdict on the winner."""
    won, first = arms[winner], arms[FIRST]
    q = won.late * (won.g_start - won.g)  # what g fell in the second half of the training
    return Certificate(
        f=won.F, g=won.g, q=q, tests=tests(arms, winner), claim=CLAIM, evaluations=dict(first.evaluations)
    )


def tests(arms: Mapping[str, Refit], winner: str) -> tuple[Test, ...]:
    """What must hold of the v that is left."""
    won, first = arms[winner], arms[FIRST]
    better = Test(
        "v is worth more than the start", won.F, first.F, won.F < first.F,
        f"F(v) = {won.F:.3g}, {first.F:.3g} at the start" if won.F < first.F else "nothing beats the start",
    )  # fmt: skip
    on = Test("v leaves g on", won.slope, None, not lost(won), "; ".join(lost(won)))
    return better, on


LOST = ("v has switched g off", "v has made g easy", "θ diverges")
"""How the warnings of a refit begin after which v is of no use."""


def warnings(arms: Mapping[str, Refit], winner: str) -> tuple[str, ...]:
    """All that a person should know, in plain words."""
    won, first = arms[winner], arms[FIRST]
    best = {
        name: min((arms[each] for each in rounds_of(name, arms)), key=lambda refit: refit.F, default=None)
        for name in KINDS
    }
    others = {name: refit for name, refit in best.items() if refit is not None and winner.split()[0] != name}
    said = ["nothing beats the start: v is as it was"] if winner == FIRST and len(arms) > 1 else []
    if winner != FIRST and any(2 * (first.F - refit.F) < first.F - won.F for refit in others.values()):
        each = ", ".join(f"{name} {refit.F:.3g}" for name, refit in best.items() if refit is not None)
        said.append(f"the arms disagree ({each}): v depends on how long θ is trained; give the horizon if you know it")
    said += [f"the {name} arm: {text}" for name, refit in others.items() for text in lost(refit)]
    for text in won.warnings:
        said.append(f"live {won.f:.3g}, refit {won.F:.3g}: {LEARNED}" if text.startswith(f"f = {won.f:.3g}") else text)
    return tuple(said)


LEARNED = "a θ that is kept while v moves learns the data of f; the θ that is left was trained anew on g alone"


def lost(refit: Refit) -> list[str]:
    """The warnings after which v is of no use."""
    return [text for text in refit.warnings if text.startswith(LOST)]
