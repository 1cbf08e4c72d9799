"""When a run ends."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bome._checks import check_count, check_positive
from bome.errors import ProblemError
from bome.methods.base import Info


class Progress(NamedTuple):
    """Where a run is.

    Attributes:
        step: outer steps done.
        info: what the last step measured; None before the first.
        evaluations: gradient evaluations of the method so far.
        seconds: time spent in steps so far.
    """

    step: int
    info: Info | None
    evaluations: int
    seconds: float

    def ended_by(self, stop: "Stop") -> str | None:
        """Why a rule ends the run here, in words; None to go on."""
        answer = stop(self)
        if answer is None or isinstance(answer, str):
            return answer
        if isinstance(answer, bool):
            return "the stop rule said so" if answer else None
        raise ProblemError(f"a stop rule must answer None to go on, or why the run is over, got {answer!r}")


class Stop(Protocol):
    """A rule that says after each step whether the run is over."""

    def __call__(self, progress: Progress) -> str | bool | None:
        """Why the run is over, or None to go on; True and False will do."""


@dataclass(frozen=True)
class MaxSteps:
    """After `steps` outer steps."""

    steps: int

    def __post_init__(self) -> None:
        check_count("steps", self.steps)

    def __call__(self, progress: Progress) -> str | None:
        """Over at the last step."""
        return f"{self.steps} steps done" if progress.step >= self.steps else None


@dataclass(frozen=True)
class MaxEvaluations:
    """After that many gradient evaluations, for fair comparisons between methods."""

    evaluations: int

    def __post_init__(self) -> None:
        check_count("evaluations", self.evaluations)

    def __call__(self, progress: Progress) -> str | None:
        """Over when they are spent."""
        return f"{self.evaluations} evaluations done" if progress.evaluations >= self.evaluations else None


@dataclass(frozen=True)
class MaxSeconds:
    """After that much time in steps."""

    seconds: float

    def __post_init__(self) -> None:
        check_positive("seconds", self.seconds)

    def __call__(self, progress: Progress) -> str | None:
        """Over when it is spent."""
        return f"{self.seconds} seconds spent" if progress.seconds >= self.seconds else None


@dataclass(frozen=True)
class Stationary:
    """When the estimate of 𝒦 is at most `tolerance`, looked at every `every` steps (each look waits for the device).

    One look at an estimate is no verdict: whether the answer is right, the certificate says.
    """

    tolerance: float
    every: int = 100

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_count("every", self.every)

    def __call__(self, progress: Progress) -> str | None:
        """Over where 𝒦 is small."""
        kkt = None if progress.info is None else progress.info.kkt
        if kkt is None or progress.step % self.every:
            return None
        return f"𝒦 ≈ {float(kkt):.2e} at one look" if float(kkt) <= self.tolerance else None


@dataclass(frozen=True)
class FirstOf:
    """When the first of several rules says so."""

    rules: tuple[Stop, ...]

    def __post_init__(self) -> None:
        if not self.rules or not all(callable(rule) for rule in self.rules):
            raise ProblemError(f"FirstOf needs a tuple of rules such as MaxSteps(1000), got {self.rules!r}")

    def __call__(self, progress: Progress) -> str | None:
        """The first reason."""
        return next((why for rule in self.rules if (why := progress.ended_by(rule)) is not None), None)
