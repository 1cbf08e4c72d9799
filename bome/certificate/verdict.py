"""What was tested at an answer, and what may be said of it: nothing is claimed that no test has shown."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

BOUND = "does it have a lower bound? let v or θ live in a set (project_v, project_theta), or add a term that grows"
"""What to do where a loss falls without end."""


@dataclass(frozen=True)
class Test:
    """One thing that must hold at a solution.

    Attributes:
        name: what must hold, such as "θ solves the inner problem".
        value: the number that was found; None where there is none.
        limit: the largest number that passes; None where there is none.
        passed: whether it holds; None if that could not be told.
        text: what was found, in words that can stand in a list of several; empty where there is nothing to say.
    """

    __test__: ClassVar[bool] = False  # for pytest, which would take it for one of its own

    name: str
    value: float | None
    limit: float | None
    passed: bool | None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is known of the quality of an answer; None where something was not measured.

    Attributes:
        f: f at the point.
        g: g at the point.
        q: q̂ after T inner steps, by which θ can still be improved; or g − min g, where a solver knows it.
        kkt: the estimate of 𝒦 from ∇q̂.
        kkt_gradient: its gradient part.
        q_twice: q̂ after 2T inner steps: if it is much larger, T was too small.
        cos: cosine between ∇f and ∇q̂.
        lambda_zero_share: the share of steps at which the constraint was inactive (λ = 0).
        exact_kkt: 𝒦 from the inner solution itself, where it can be had (𝒦◇ where g has several basins).
        tests: what was tested; the verdict says no more than they do.
        claim: what may be said where all of them hold.
        evaluations: what the certificate itself has cost, by kind; not among the evaluations of the run.
    """

    f: float
    g: float
    q: float
    kkt: float | None = None
    kkt_gradient: float | None = None
    q_twice: float | None = None
    cos: float | None = None
    lambda_zero_share: float | None = None
    exact_kkt: float | None = None
    tests: tuple[Test, ...] = ()
    claim: str = "stationary"
    evaluations: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The tests in plain words."""
        return verdict(self.tests, self.claim)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "tests": [asdict(test) for test in self.tests], "verdict": self.verdict}

    def numbers(self) -> dict[str, float]:
        """What a row of a history has in common with it."""
        named = {name: getattr(self, name) for name in ("f", "g", "q", "kkt_gradient", "kkt", "cos")}
        return {name: value for name, value in named.items() if value is not None}


def verdict(tests: Sequence[Test], claim: str = "stationary") -> str:
    """What may be said after these tests: the claim only if all of them hold.

    Args:
        tests: in the order in which a person should hear of them.
        claim: such as "stationary", or "solved as far as 14 fresh starts can tell".
    """
    failed = [test.text for test in tests if test.passed is False]
    if failed:
        return f"not {claim.split()[0]}: " + "; ".join(failed)
    untold = [test.text for test in tests if test.passed is None]
    if untold or not tests:
        return f"not known whether it is {claim.split()[0]}: " + ("; ".join(untold) or "nothing was tested")
    said = "; ".join(test.text for test in tests if test.text)
    return f"{claim}: {said}" if said else claim
