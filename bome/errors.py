"""The errors of `bome`: each names the place and the remedy in one line."""

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class BilevelError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns for it."""

    exit_code = 2

    def __reduce__(self) -> tuple[Callable[..., "BilevelError"], tuple[Any, ...]]:
        """As a worker process sends it: with its message and attributes, whatever its constructor takes."""
        return _received, (type(self), self.args, self.__dict__)


def _received(kind: type[BilevelError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> BilevelError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ProblemError(BilevelError, ValueError):
    """The problem, the method or their settings cannot work as given; nothing has been computed."""


class UnsupportedError(BilevelError, TypeError):
    """The method needs something (a second-order product, a task) that it is not given here."""


class NonFiniteError(BilevelError, ArithmeticError):
    """NaN or infinity appeared during a step; the variables and optimisers are as they were before it.

    Attributes:
        step: index of the outer step, from 0; −1 outside of one.
        hint: what to try.
        where: the first quantity that was not finite, such as "∇g at inner step 3, theta['weight']".
    """

    exit_code = 3

    def __init__(self, step: int, where: str, hint: str) -> None:
        super().__init__(
            f"step {step}: {where} is not finite; {hint}" if step >= 0 else f"{where} is not finite; {hint}"
        )
        self.step = step
        self.where = where
        self.hint = hint


class StorageError(BilevelError, OSError):
    """A file cannot be read, written or trusted."""

    exit_code = 4


class RunInterruptedError(BilevelError):
    """The run was asked to stop; its state is saved. `exit_code` is 128 plus the number of the signal."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name} after step {step}; the state is saved")
        self.exit_code = 128 + number


class RankError(BilevelError, RuntimeError):
    """Another process of the run is gone, so that this one cannot go on.

    Attributes:
        step: index of the outer step, from 0.
        ranks: those that are gone.
    """

    exit_code = 4

    def __init__(self, step: int, ranks: Sequence[int]) -> None:
        who = " and ".join(map(str, ranks))
        super().__init__(
            f"step {step}: rank {who} is gone (killed, out of memory or lost): start again with resume=True, which "
            "continues from the newest checkpoint"
        )
        self.step = step
        self.ranks = tuple(ranks)


class WorkerError(BilevelError, RuntimeError):
    """A process that worked on a part of a study is gone; parts that have ended are kept."""

    exit_code = 4

    def __init__(self) -> None:
        super().__init__("a worker process is gone (killed, or out of memory): start again, what has ended is kept")
