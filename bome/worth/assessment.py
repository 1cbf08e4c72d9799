"""What follows a run: θ is trained anew with its v, where that costs little or is asked for."""

from typing import Any, NamedTuple

from bome.core.ranks import shard_of
from bome.data.streams import Data
from bome.errors import ProblemError
from bome.inner import InnerMap, check_inner, needs_closure
from bome.methods.base import Method
from bome.oracles import Oracle
from bome.problem import Problem
from bome.worth.judgement import Refit
from bome.worth.refit import as_stream, judges, refit
from bome.worth.start import Start

SHARE = 5
"""What costs at most the run's evaluations divided by this is done without being asked for."""

Wish = bool | InnerMap | None
"""Whether θ is to be trained anew, or how; None for: where that costs little."""


class Worth(NamedTuple):
    """What a v is worth.

    Attributes:
        refit: F(v), where it was measured.
        text: the same in words, or why it was not measured.
    """

    refit: Refit | None
    text: str

    def numbers(self) -> dict[str, float]:
        """What the last row of a history says of it."""
        return {} if self.refit is None else {"F": self.refit.F}


class Assessment:
    """Remembers where a run starts, and trains θ anew from there when it has ended.

    Args:
        problem: before the run.
        wish: True, False, how to train θ, or None for: where it costs at most a fifth of the run.
        judge_on: a stream or one batch for f, of data that v does not see; by default the batches of the run.
    """

    def __init__(self, problem: Problem, wish: Wish, judge_on: Any = None) -> None:
        if wish is not None and not isinstance(wish, bool):
            check_inner(wish)
        if judge_on is not None:
            if wish is False:
                raise ProblemError("judge_on is given, but refit=False: leave one of them out")
            wish = wish or True
        self._reason = "the run has refit=False" if wish is False else _reason(problem)
        if wish and self._reason:
            raise ProblemError(f"F(v) cannot be measured: {self._reason}; leave refit out")
        self._problem, self._wish, self._judge_on = problem, wish, judge_on
        self.start = None if self._reason else Start(problem)

    def worth(self, oracle: Oracle, method: Method, inner: InnerMap, *, k: int, data: Data) -> Worth:
        """Train θ anew with the present v.

        Args:
            oracle: of the run; what it counts stays as it is.
            method: of the run.
            inner: how θ is trained where nothing else was wished.
            k: outer steps that were done.
            data: of the run; its streams stay where they are.
        """
        if self._reason:
            return Worth(None, f"F(v) is not measured: {self._reason}")
        training = self._wish if isinstance(self._wish, InnerMap) else inner.with_steps(max(method.theta_steps(k), 1))
        stream = data.outer if self._judge_on is None else as_stream(self._judge_on)
        cost, spent = _cost(oracle, training, k) + 3 * judges(stream) + 2, sum(oracle.counts.values())
        if self._wish is None and cost * SHARE > spent:
            text = f"F(v) is not measured: it takes {cost:,} evaluations, more than a fifth of the run's {spent:,}"
            return Worth(None, f"{text}; run(..., refit=True) measures it")
        fresh = type(oracle)(self._problem)
        found = refit(self._problem, training, data=data, judge_on=stream, start=self.start, oracle=fresh)
        return Worth(found, str(found))

    def state(self) -> dict[str, Any]:
        """Where the run started, for checkpoints."""
        return {} if self.start is None else {f"start_{key}": x for key, x in self.start.state_dict().items()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; one that tells of no start was made with `refit=False`."""
        if self.start is None or "start_theta" not in state:
            return
        parts = {
            key: [shard_of(x, like) for x, like in zip(state[f"start_{key}"], live, strict=True)]
            for key, live in self._problem.point._asdict().items()
        }
        self.start.load_state_dict({**parts, "buffers": state["start_buffers"]})


def _reason(problem: Problem) -> str:
    """Why θ cannot be trained anew, in words; empty if it can be."""
    if not problem.v.given:
        return "there is no v"
    if problem.constraints:
        return "with constraints descent on g alone leads out of them; bome.solve gives F(v)"
    return ""


def _cost(oracle: Oracle, training: InnerMap, k: int) -> int:
    """About how many evaluations the training takes; of L-BFGS and the like, as many for a step as in the run."""
    if not needs_closure(training, oracle.problem.point.theta):
        return training.steps
    return training.steps * max(oracle.counts["g"] // max(k, 1), 1)
