"""The only bilevel loop: draws batches, steps, logs, saves, certifies, stops."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from bome._checks import check_count
from bome._typing import Leaves
from bome.certificate import Certificate, allowed, certify
from bome.core.roll_call import watched
from bome.core.seeds import random_state, restore_random
from bome.core.signals import signals
from bome.core.trees import Pair
from bome.data.streams import Data
from bome.errors import ProblemError, RunInterruptedError, StorageError
from bome.inner import GradientDescent
from bome.methods.base import Info, Method
from bome.oracles import Oracle, OracleName
from bome.oracles.traces import snapshot
from bome.problem import Problem
from bome.stepper import Stepper
from bome.stopping import MaxSteps, Progress, Stop
from bome.storage import checkpoint
from bome.storage.history import History
from bome.storage.together import newest_of_all, save_together
from bome.tuner import Tuner
from bome.worth import Assessment, Refit, Wish, Worth, copies

SAVE_EVERY = 1000
"""Steps between checkpoints where nothing else is asked for."""


@dataclass(frozen=True)
class Record:
    """What a run writes to disk.

    Attributes:
        folder: the run directory; `metrics.jsonl` and `checkpoints/` go there.
        save_every: steps between checkpoints; one is also written at the end and on SIGINT and SIGTERM.
        resume: continue from the newest checkpoint in the folder; without it the folder must not hold any.
    """

    folder: Path
    save_every: int = SAVE_EVERY
    resume: bool = False

    def __post_init__(self) -> None:
        check_count("save_every", self.save_every)


@dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Attributes:
        v: the outer variable, in the form it was given (the live object itself).
        theta: the inner variable, likewise.
        status: why the run ended.
        steps: outer steps done.
        f: f at the end.
        q: q̂ at the end.
        history: the logged rows.
        certificate: how good the solution is.
        evaluations: how often the method evaluated f, g and second-order products.
        seconds: time spent in steps.
        tuned: what a tuner picked.
        state: everything needed to continue, as checkpoints hold it.
        refit: F(v), what f is at a θ trained anew on g alone, where it was measured; not among `evaluations`.
        worth: that in words with what there is to warn of, or why it was not measured.
        refits: of all v that were judged, by the outer steps before them; one, or with `keep_best` several.
    """

    v: Any
    theta: Any
    status: str
    steps: int
    f: float
    q: float
    history: History
    certificate: Certificate
    evaluations: dict[str, int]
    seconds: float
    tuned: dict[str, float] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, repr=False)
    refit: Refit | None = None
    worth: str = ""
    refits: dict[int, Refit] = field(default_factory=dict)


def run(
    problem: Problem,
    method: Method,
    *,
    outer_opt: Optimizer | None = None,
    inner_opt: Optimizer | None = None,
    data: Data | None = None,
    stop: Stop | None = None,
    schedulers: Sequence[LRScheduler] = (),
    oracle: OracleName | Oracle = "auto",
    tuner: Tuner | None = None,
    observe: Callable[[Problem], Mapping[str, float]] | None = None,
    log_every: int = 10,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
    solve_inner: Callable[[Leaves, Leaves], Leaves] | None = None,
    certify_on: int | Data = 1,
    refit: Wish = None,
    judge_on: Any = None,
    keep_best: bool = False,
) -> Result:
    """Solve a bilevel problem.

    Args:
        problem: the losses and the live variables, which are changed in place.
        method: the algorithm.
        outer_opt: optimiser of v; None in a problem without v.
        inner_opt: optimiser of θ; by default plain SGD with the inner map's step size.
        data: batches for g and f; by default both losses get `None`.
        stop: when to end; by default after 1,000 steps.
        schedulers: stepped after every outer step.
        oracle: how to differentiate.
        tuner: picks T and the scale of the v step between steps.
        observe: further quantities to log, such as test accuracy; its time and evaluations are not counted.
        log_every: steps between rows of the history.
        record: where to write history and checkpoints; nothing is written by default.
        progress: called after every step.
        solve_inner: the inner solution as a function of (v, θ), for an exact certificate.
        certify_on: what the certificate is measured on: so many random batches (at least 4 for a verdict), or the next
            batches of other `Data`, such as all data. Without minibatches it is all data in any case.
        refit: whether θ is trained anew on g alone with the last v, from where it started, which gives F(v); by default
            where that costs at most a fifth of the run. True does it in any case, with as many steps as θ made in the
            run; `refit=GradientDescent(lr=0.1, steps=1000)` with these. False keeps no copy of the start either.
        judge_on: a stream or one batch for f there, of data that v has not seen.
        keep_best: take the v with the lowest F(v) of up to nine, spread over the run from the start to the end; θ is
            then the one that was trained with it. Costs as many refits.
    """
    check_count("log_every", log_every)
    _check_parts(data, stop, schedulers, certify_on)
    stepper = Stepper(problem, method, outer_opt, inner_opt, oracle)
    data = data if data is not None else Data()
    session = _Session(
        stepper, data, tuple(schedulers), tuner, Assessment(problem, refit, judge_on, keep_best=keep_best)
    )
    stop = stop if stop is not None else MaxSteps(1000)
    ranks = stepper.oracle.ranks
    with signals(record is not None) as asked, watched(ranks) as watch, _open(record, session) as history:
        if tuner is not None:
            tuner.attach(stepper)
        status, _ = session.agreed(session.progress().ended_by(stop) if stepper.k else None, [])
        while status is None:
            if watch is not None:
                watch.step = stepper.k
            logged = stepper.k % log_every == 0
            extra = dict(observe(problem)) if logged and observe is not None else {}
            info = session.advance()
            if logged:
                history.append({**session.row(stepper.k - 1), **info.numbers(), **extra})
            status = session.progress().ended_by(stop)
            if progress is not None:
                progress(session.progress())
            status, number = session.agreed(status, asked)
            if record is not None and (status is not None or number or stepper.k % record.save_every == 0):
                history.flush()  # a checkpoint must not be newer than its history
                session.save(record.folder / "checkpoints")
            if number and status is None:
                raise RunInterruptedError(number, stepper.k)
        stepper.settle()
        state = session.state()
        if keep_best:  # v and θ will be put elsewhere
            state |= {key: deepcopy(state[key]) for key in ("v", "theta", "buffers")}
        worth = session.worth()
        certificate = session.certificate(solve_inner, certify_on, history)  # after the state: it draws batches
        extra = dict(observe(problem)) if observe is not None else {}
        history.append({**session.row(stepper.k), **certificate.numbers(), **worth.numbers(), **extra})
    return Result(
        v=problem.v.value,
        theta=problem.theta.value,
        status=status,
        steps=stepper.k,
        f=certificate.f,
        q=certificate.q,
        history=history,
        certificate=certificate,
        evaluations=dict(stepper.counts),
        seconds=session.seconds,
        tuned=tuner.picked() if tuner is not None else {},
        state=state,
        refit=worth.refit,
        worth=worth.text,
        refits=dict(worth.refits),
    )


@dataclass
class _Session:
    """Everything that changes during a run."""

    stepper: Stepper
    data: Data
    schedulers: tuple[LRScheduler, ...]
    tuner: Tuner | None
    assessment: Assessment
    seconds: float = 0.0
    info: Info | None = None
    inactive: Tensor | None = None  # steps with λ = 0
    rising: Tensor | None = None  # steps with q̂ < 0

    def advance(self) -> Info:
        """One outer step with all that belongs to it."""
        start = time.perf_counter()
        method, kept, k = self.stepper.method, self.assessment.candidates, self.stepper.k
        v = copies(self.stepper.current_v) if kept is not None and kept.due(k) else None
        info = self.stepper.step_on(self.data.draw(inner=method.inner_batches, outer=method.outer_batches))
        if self.tuner is not None:
            self.tuner.after(self.stepper, info)
        for scheduler in self.schedulers:
            scheduler.step()
        if info.lam is not None:
            self.inactive = (info.lam <= 0).long() + (0 if self.inactive is None else self.inactive)
        if info.q is not None and info.tail is not None:  # q̂ of a look-ahead
            self.rising = (info.q < 0).long() + (0 if self.rising is None else self.rising)
        if kept is not None and v is not None:
            kept.add(k, info.f, v)
        self.info = info
        self.seconds += time.perf_counter() - start
        return info

    def progress(self) -> Progress:
        """Where the run is."""
        return Progress(self.stepper.k, self.info, sum(self.stepper.counts.values()), self.seconds)

    def row(self, step: int) -> dict[str, float | int | str | None]:
        """The part of a row of the history that every method has."""
        return {"step": step, "seconds": self.seconds, **{f"n_{kind}": n for kind, n in self.stepper.counts.items()}}

    def certificate(
        self, solve_inner: Callable[[Leaves, Leaves], Leaves] | None, on: int | Data, history: History
    ) -> Certificate:
        """Certify the current point, by an oracle of its own so that the method's counts stay as they are."""
        stepper, problem = self.stepper, self.stepper.problem
        inner = stepper.method.inner_map
        if inner is None:
            inner = GradientDescent(lr=max(min(stepper.metric.theta), 1e-8), steps=10)  # a schedule may have ended at 0
        point = problem.point
        end = solve_inner(point.v, point.theta) if solve_inner is not None else None
        drawn = on.draw(inner=1, outer=1) if isinstance(on, Data) else self.data.sampled(on)
        rows, batches = problem.localise(drawn)
        if rows is not None:
            point = Pair(tuple(x[rows] for x in point.v), point.theta)
        share = None if self.inactive is None else int(self.inactive) / max(stepper.k, 1)
        restore = snapshot(problem)
        try:
            certificate = certify(
                type(stepper.oracle)(problem), point, inner, batches, end, share,
                sample=not isinstance(on, Data) and not self.data.whole,
                allowed=allowed(sum(stepper.counts.values())),
                first=history.rows[0] if history.rows else {}, metric=stepper.metric,
            )  # fmt: skip
        finally:
            restore()
        if self.rising is not None and int(self.rising) > 0.1 * stepper.k:
            warnings.warn(
                f"the inner loss rose along the look-ahead in {int(self.rising)} of {stepper.k} steps: lower inner_lr",
                stacklevel=3,
            )
        return certificate

    def worth(self) -> Worth:
        """Train θ anew: by the inner map, or by gradient descent with the first step size of θ's optimiser."""
        stepper = self.stepper
        rates = [group.get("initial_lr", group["lr"]) for group in stepper.inner_opt.param_groups]
        inner = stepper.method.inner_map or GradientDescent(max(float(min(rates)), 1e-8))
        return self.assessment.worth(stepper.oracle, stepper.method, inner, k=stepper.k, data=self.data)

    def agreed(self, status: str | None, asked: Sequence[int]) -> tuple[str | None, int]:
        """Why to stop, and the signal that asks for it or 0, as all ranks see it: if one stops, all do."""
        ranks, number = self.stepper.oracle.ranks, asked[0] if asked else 0
        if ranks is None:
            return status, number
        stops, number = ranks.largest(int(status is not None), number)
        return (status or "another rank stopped") if stops else None, number

    def save(self, folder: Path) -> None:
        """Write a checkpoint; all ranks together write one."""
        ranks, state = self.stepper.oracle.ranks, self.state()
        if ranks is None:
            checkpoint.save(folder, self.stepper.k, state)
            return
        rows = ("v", "start_v", "candidates", "outer_opt") if self.stepper.problem.v.table is not None else ()
        own = {key: state.pop(key) for key in ("buffers", "data", "random", "start_buffers", *rows) if key in state}
        save_together(folder, self.stepper.k, state, own, ranks)

    def state(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            **self.stepper.state_dict(),
            "schedulers": [_plain(scheduler.state_dict()) for scheduler in self.schedulers],
            "data": self.data.state_dict(),
            "tuner": None if self.tuner is None else self.tuner.state_dict(),
            "seconds": self.seconds,
            "info": None if self.info is None else list(self.info),
            "inactive": self.inactive,
            "rising": self.rising,
            "random": random_state(),
            **self.assessment.state(),
        }

    def load(self, newest: checkpoint.Checkpoint) -> None:
        """Continue from a checkpoint.

        Of another number of ranks it takes what they share. The data go on where the first rank was, and the random
        generators of a rank that was not there stay as they are.
        """
        state, ranks = newest.state, self.stepper.oracle.ranks
        size, rank = (1, 0) if ranks is None else (ranks.size, ranks.rank)
        if size != newest.ranks and self.stepper.problem.v.table is not None:
            raise StorageError(f"the rows of PerSample are those of {newest.ranks} ranks: continue with as many")
        if len(state["schedulers"]) != len(self.schedulers):
            raise StorageError("the checkpoint is of another run: it has other running statistics or schedulers")
        self.stepper.load_state_dict(state)
        for scheduler, saved in zip(self.schedulers, state["schedulers"], strict=True):
            fresh = scheduler.state_dict()
            scheduler.load_state_dict({**fresh, **_like(fresh, saved)})
        self.data.load_state_dict(state["data"])
        if self.tuner is not None and state["tuner"] is not None:
            self.tuner.load_state_dict(state["tuner"])
        self.seconds = state["seconds"]
        self.info = None if state["info"] is None else Info(*state["info"])
        self.inactive, self.rising = state["inactive"], state["rising"]
        self.assessment.load(state)
        if rank < newest.ranks:
            restore_random(state["random"])


def _check_parts(
    data: Data | None, stop: Stop | None, schedulers: Sequence[LRScheduler], certify_on: int | Data
) -> None:
    """Refuse arguments that would fail only after the first step."""
    if data is not None and not isinstance(data, Data):
        raise ProblemError(
            f"data must be Data(outer=..., inner=...), a stream for each loss, got {type(data).__name__}"
        )
    if stop is not None and not callable(stop):
        raise ProblemError(f"stop must be a rule such as MaxSteps(1000), got {stop!r}")
    if not isinstance(certify_on, Data):
        check_count("certify_on (random batches)", certify_on)
    if any(isinstance(scheduler, ReduceLROnPlateau) for scheduler in schedulers):
        raise ProblemError("ReduceLROnPlateau needs a measurement at each step: use a scheduler that counts steps")


def _open(record: Record | None, session: _Session) -> History:
    """The history, after continuing from the newest checkpoint if that is wanted."""
    if record is None:
        return History()
    folder = record.folder / "checkpoints"
    ranks = session.stepper.oracle.ranks
    newest = newest_of_all(folder, ranks) if record.resume else None
    if newest is not None:
        session.load(newest)
    elif any("." not in path.name for path in folder.glob("step_*")):
        raise ProblemError(f"{folder} holds another run: continue it with resume=True, or choose another folder")
    if ranks is not None and ranks.rank > 0:
        return History()  # the first rank writes
    record.folder.mkdir(parents=True, exist_ok=True)
    history = History.open(record.folder / "metrics.jsonl")
    history.truncate(session.stepper.k - 1)
    return history


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """A scheduler's state without its functions, which the new one has already."""
    return {key: value for key, value in state.items() if not _holds_function(value)}


def _like(fresh: Any, saved: Any) -> Any:
    """The saved state of a scheduler with dicts of the kind the fresh one has: checkpoints make a `Counter` a dict."""
    if isinstance(fresh, dict) and isinstance(saved, dict):
        return type(fresh)({key: _like(fresh.get(key), value) for key, value in saved.items()})
    if isinstance(fresh, list) and isinstance(saved, list) and len(fresh) == len(saved):
        return [_like(*pair) for pair in zip(fresh, saved, strict=True)]
    return saved


def _holds_function(value: Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    return any(callable(item) for item in items)
