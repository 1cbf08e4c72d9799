r"""The race: what v_0 is worth, a round of each arm with a quarter of the budget, and on with the better.

    1:  F_0: θ trained from θ_0 for H steps on g(v_0, ·); its α is the largest from now on       (`curvature`)
    2:  for both arms: a round from v_0, with a quarter of the budget; F of where it ends        (`arm`)
    3:  a second round, with all that is left, for the arm with the lower F, from there;
            if that is above F_0: from v_0, with half the step of v
    4:  the v with the lowest F that was measured, v_0 included, and the θ that was trained with it

F(v) is f after θ was trained from θ_0 for H steps on g(v, ·) alone, on the same batches for all v (`bome.worth`).
Rounds that are done are passed over, so that a race goes on wherever its state was saved.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from bome.arms.arm import EPISODE, KINDS, STEPS, Arm, Choices, sizes
from bome.arms.curvature import Curvature, CurvedDescent
from bome.core.seeds import random_state, restore_random
from bome.data.streams import Data
from bome.oracles import Oracle
from bome.worth import Refit, Start
from bome.worth.refit import EARLY, retrained

SHARE = 0.25
"""Of the budget, for the first round of each arm with its refit."""
LEAST = 3
"""Refits that must be affordable for a second round."""
FIRST = "start"
"""The name of v_0 among the rounds; the others are "young", "old" and "young 2" or "old 2"."""


@dataclass(frozen=True)
class Terms:
    """What was asked for.

    Attributes:
        budget: the most evaluations.
        horizon: H, for how many steps θ is trained when a v is judged.
        choices: what was fixed.
    """

    budget: int
    horizon: int
    choices: Choices = field(default_factory=Choices)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that run."""
        return tuple(KINDS) if self.choices.arm is None else (self.choices.arm,)


class Race:
    """A race on the live variables.

    Args:
        oracle: of the problem.
        data: batches.
        terms: what was asked for.
        clock: which share of the time has passed; 0 where there is no limit.
        watch: called before every step; it raises where the race must stop.
        told: called after every outer step and every judgement, with the stage and what was measured.

    Attributes:
        origin: where everything started.
        judged: what is known of the v that were judged, by stage.
        ends: where stages have ended, from where arms begin or go on.
        best: the v with the lowest F, with the θ that was trained with it; and the stage it is from.
        spent: evaluations, by what they were for.
        steps: outer steps done, of all arms.
        ticks: how often something was told.
    """

    def __init__(
        self,
        oracle: Oracle,
        data: Data,
        terms: Terms,
        *,
        clock: Callable[[], float],
        watch: Callable[[], None],
        told: Callable[[str, dict[str, float]], None],
    ) -> None:
        self.oracle, self.problem, self.data, self.terms = oracle, oracle.problem, data, terms
        self._clock, self._watch, self._told = clock, watch, told
        self.origin = Start(self.problem)
        self._size, self._batches = sizes(self.problem.point), data.state_dict()
        self.curvature = Curvature(fixed=terms.choices.lr)
        self.judged: dict[str, Refit] = {}
        self.alphas: dict[str, float] = {}
        self.ends: dict[str, Start] = {}
        self.best, self.winner = self.origin, ""
        self.spent: Counter[str] = Counter()
        self.steps, self.ticks, self._refit_costs, self._before = 0, 0, 0.0, 0.0
        self._arm: Arm | None = None
        self._stage = FIRST
        self._saved: dict[str, Any] | None = None

    @property
    def used(self) -> float:
        """The share of the budget, or of the time, that is gone."""
        return max(sum(self.spent.values()) / self.terms.budget, self._clock())

    @property
    def counts(self) -> dict[str, int]:
        """Evaluations by kind, those of judgements with them."""
        total = self.oracle.counts.copy()
        for refit in self.judged.values():
            total.update(refit.evaluations)
        return dict(total)

    @property
    def rates(self) -> dict[str, float]:
        """The largest step of an entry of v, for each arm."""
        fixed, size = self.terms.choices.outer_lr, max(self._size)
        return {f"lr of v, {name}": fixed or KINDS[name].c * size for name in self.terms.arms}

    def run(self) -> None:
        """All of it, or what is left of it."""
        self._judge(FIRST)  # line 1
        for name in self.terms.arms:  # line 2
            if not self.rounds(name):
                self._round(name)
        while self._pending or 1 - self.used > LEAST * self._refit_costs:  # line 3
            self._round(min(self.terms.arms, key=lambda name: self.judged[self.rounds(name)[-1]].F))

    def rounds(self, name: str) -> list[str]:
        """The rounds of an arm that were judged, in order."""
        return rounds_of(name, self.judged)

    @property
    def _pending(self) -> bool:
        """Whether a round has begun that was not judged."""
        return self._saved is not None or any(stage not in self.judged for stage in self.ends)

    def _round(self, name: str) -> None:
        """Another round of an arm, and what its v is worth."""
        before = self.rounds(name)
        stage = f"{name} {len(before) + 1}" if before else name
        self._learn(stage, name, min((FIRST, *before), key=lambda each: self.judged[each].F))
        self._judge(stage)
        kept = {min((FIRST, *self.rounds(arm)), key=lambda each: self.judged[each].F) for arm in self.terms.arms}
        self.ends = {each: start for each, start in self.ends.items() if each in kept | {FIRST}}

    def _learn(self, stage: str, name: str, begin: str) -> None:
        """The steps of an arm, until its share of the budget is used but for what its refit costs."""
        if stage in self.ends:
            return
        self.ends[begin].write_all(self.problem)
        home = self.origin if KINDS[name].episode else self.ends[begin]
        self.curvature.L = 0.0
        arm = self._arm = Arm(
            name, self.oracle, self.data, home, self.curvature, self.terms.choices, self._size, self._known(begin)
        )
        arm.halved = 0.5 ** self._worse(name)
        if self._arm_saved(stage):
            assert self._saved is not None  # noqa: S101 - just seen
            arm.load_state_dict(self._saved["arm"])
            self._saved = None
        else:
            self._before = self.used
        self._stage = stage
        while True:
            room = 1 - self._before if self.rounds(name) else SHARE
            room -= self._refit_costs + arm.cost / self.terms.budget
            gone = (self.used - self._before) / room if room > 0 else 1.0
            if gone >= 1 or arm.over:
                break
            self._watch()
            before = sum(self.oracle.counts.values())
            info = arm.step(gone)
            self.spent[name] += sum(self.oracle.counts.values()) - before
            self.steps += 1
            self._tell(stage, {} if info is None else info.numbers())
        self._arm = None
        self.ends[stage] = Start(self.problem)

    def _known(self, begin: str) -> tuple[float, float]:
        """f at θ_0, and f with the v of a round at a θ that is at most as old as one at the end of an episode."""
        refit, episode = self.judged[begin], EPISODE * (self.terms.choices.steps or STEPS)
        early = refit.f_early if refit.f_early is not None and refit.steps // EARLY <= episode else refit.f_start
        return refit.f_start, early

    def _worse(self, name: str) -> int:
        """How many rounds of an arm have made v worse than where they began."""
        best, worse = self.judged[FIRST].F, 0
        for stage in self.rounds(name):
            worse += not best > self.judged[stage].F
            best = min(best, self.judged[stage].F)
        return worse

    def _judge(self, stage: str) -> None:
        """Train θ anew with the v where a stage has ended, and keep both if f is lower than ever before."""
        if stage in self.judged:
            return
        first = stage == FIRST
        (self.origin if first else self.ends[stage]).write_all(self.problem)
        used, here, random = self.used, self.data.state_dict(), random_state()
        self.data.load_state_dict(self._batches)  # the same ones for every v
        curvature = Curvature(fixed=self.curvature.fixed)
        descent = CurvedDescent(self.terms.horizon, curvature, self._watch)
        try:
            refit = retrained(self.oracle, descent, self.data, self.data.outer, self.origin)
        finally:
            self.data.load_state_dict(here)
            restore_random(random)
        self.spent["refits"] += sum(refit.evaluations.values())
        self.judged[stage], self.alphas[stage] = refit, curvature.alpha
        if first:
            self.curvature.least, self._refit_costs = curvature.L, self.used - used
            self.ends[FIRST] = Start(self.problem)
        if first or refit.F < self.judged[self.winner].F:
            self.best, self.winner = Start(self.problem), stage
        self._tell(stage, {"F": refit.F, "live": refit.f})

    def _tell(self, stage: str, row: dict[str, float]) -> None:
        self.ticks += 1
        self._told(stage, row)

    def _arm_saved(self, stage: str) -> bool:
        """Whether the race was saved within this stage."""
        return self._saved is not None and self._saved["stage"] == stage

    def state_dict(self) -> dict[str, Any]:
        """All of it, after an outer step or between stages."""
        return {
            "origin": self.origin.state_dict(),
            "judged": {stage: asdict(refit) for stage, refit in self.judged.items()},
            "alphas": self.alphas,
            "ends": {stage: start.state_dict() for stage, start in self.ends.items()},
            "best": self.best.state_dict(),
            "winner": self.winner,
            "spent": dict(self.spent),
            "steps": [self.steps, self.ticks],
            "costs": self._refit_costs,
            "before": self._before,
            "least": self.curvature.least,
            "batches": self._batches,
            "arm": None if self._arm is None else {"stage": self._stage, "arm": self._arm.state_dict()},
            "data": self.data.state_dict(),
            "counts": dict(self.oracle.counts),
            "random": random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there when `run` is called."""
        self.origin.load_state_dict(state["origin"])
        self.origin.check(self.problem)
        self.judged = {stage: Refit(**refit) for stage, refit in state["judged"].items()}
        self.alphas = dict(state["alphas"])
        self.ends = {stage: self._start(each) for stage, each in state["ends"].items()}
        self.best, self.winner = self._start(state["best"]), state["winner"]
        self.spent, (self.steps, self.ticks) = Counter(state["spent"]), state["steps"]
        self._refit_costs, self._before = state["costs"], state["before"]
        self.curvature.least, self._batches, self._saved = state["least"], state["batches"], state["arm"]
        self.data.load_state_dict(state["data"])
        self.oracle.counts = Counter(state["counts"])
        restore_random(state["random"])

    def _start(self, state: dict[str, Any]) -> Start:
        start = Start(self.problem)
        start.load_state_dict(state)
        return start


def rounds_of(name: str, stages: Iterable[str]) -> list[str]:
    """Those of the stages that are rounds of an arm."""
    return [stage for stage in stages if stage.split()[0] == name]
