"""What follows a run: θ is trained anew with its v, where that costs little or is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from bome.core.ranks import shard_of
from bome.data.streams import Data
from bome.errors import ProblemError
from bome.inner import InnerMap, check_inner, needs_closure
from bome.methods.base import Method
from bome.oracles import Oracle
from bome.problem import Problem
from bome.worth.candidates import Candidate, Candidates, copies
from bome.worth.judgement import Refit
from bome.worth.refit import SLOPES, as_stream, judges, retrained
from bome.worth.start import Start, undone, write

SHARE = 5
"""What costs at most the run's evaluations divided by this is done without being asked for."""

Wish = bool | InnerMap | None
"""Whether θ is to be trained anew, or how; None for: where that costs little."""


class Worth(NamedTuple):
    """What a v is worth.

    Attributes:
        refit: F(v), where it was measured.
        text: the same in words, or why it was not measured.
        refits: of all v that were tried, by the outer steps before them.
        step: the outer steps before the v that was taken.
    """

    refit: Refit | None
    text: str
    refits: Mapping[int, Refit] = MappingProxyType({})
    step: int = 0

    def numbers(self) -> dict[str, float]:
        """What the last row of a history says of it."""
        return {} if self.refit is None else {"F": self.refit.F}


class Assessment:
    """Remembers where a run starts, and trains θ anew from there when it has ended.

    Args:
        problem: before the run.
        wish: True, False, how to train θ, or None for: where it costs at most a fifth of the run.
        judge_on: a stream or one batch for f, of data that v does not see; by default the batches of the run.
        keep_best: whether the best of several v of the run is taken, not the last.
    """

    def __init__(self, problem: Problem, wish: Wish, judge_on: Any = None, *, keep_best: bool = False) -> None:
        if wish is not None and not isinstance(wish, bool):
            check_inner(wish)
        for name, given in (("judge_on", judge_on is not None), ("keep_best", keep_best)):
            if given and wish is False:
                raise ProblemError(f"{name} needs F(v), but there is refit=False: leave one of them out")
            wish = True if given and wish is None else wish
        self._reason = "the run has refit=False" if wish is False else _reason(problem)
        if wish and self._reason:
            raise ProblemError(f"F(v) cannot be measured: {self._reason}; leave refit out")
        self._problem, self._wish, self._judge_on = problem, wish, judge_on
        self.start = None if self._reason else Start(problem)
        self.candidates = Candidates() if keep_best else None

    def worth(self, oracle: Oracle, method: Method, inner: InnerMap, *, k: int, data: Data) -> Worth:
        """Train θ anew with the present v; to take the best one, with several, and leave v and θ there.

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
        cost, spent = _cost(oracle, training, k) + 4 * judges(stream) + SLOPES, sum(oracle.counts.values())
        if self._wish is None and cost * SHARE > spent:
            text = f"F(v) is not measured: it takes {cost:,} evaluations, more than a fifth of the run's {spent:,}"
            return Worth(None, f"{text}; run(..., refit=True) measures it")
        fresh = type(oracle)(self._problem)
        fresh.check_inner(training)

        def refitted() -> Refit:
            return retrained(fresh, training, data, stream, self.start)

        if self.candidates is not None:
            return self._best([Candidate(k, None, copies(self._problem.point.v)), *self.candidates.kept], refitted)
        with undone(self._problem):
            found = refitted()
        if 2 * cost * SHARE <= spent and self.start is not None:
            v = copies(self._problem.point.v)
            with undone(self._problem):
                write(self._problem.point.v, self.start.v)
                found = found.beside(refitted())
            write(self._problem.point.v, v)
        return Worth(found, str(found), {k: found}, k)

    def _best(self, candidates: Sequence[Candidate], refitted: Callable[[], Refit]) -> Worth:
        """Put v, θ and the running statistics to those of the lowest F(v); where none is lower, v stays the last."""
        refits, best = dict[int, Refit](), None
        for step, f, v in candidates:
            with undone(self._problem):
                write(self._problem.point.v, v)
                found = refitted()
                refits[step] = found if f is None else replace(found, f=f)
                if best is None or found.F < refits[best[0]].F:
                    best = step, Start(self._problem)
        assert best is not None, "there is always the last"  # noqa: S101 - for the type checker
        best[1].write_all(self._problem)
        if 0 in refits:
            refits = {step: found.beside(refits[0]) for step, found in refits.items()}
        text = (
            f"of {len(refits)} v, F(v) is lowest after step {best[0]:,} of {candidates[0].step:,}; θ is trained with it"
        )
        return Worth(refits[best[0]], f"{text}\n{refits[best[0]]}", dict(sorted(refits.items())), best[0])

    def state(self) -> dict[str, Any]:
        """Where the run started and what was kept, for checkpoints."""
        start = {} if self.start is None else {f"start_{key}": x for key, x in self.start.state_dict().items()}
        return start if self.candidates is None else {**start, "candidates": self.candidates.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; one that tells of no start was made with `refit=False`."""
        if self.candidates is not None and "candidates" in state:
            self.candidates.load_state_dict(state["candidates"], self._problem.point.v)
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
