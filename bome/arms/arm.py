r"""An arm: it learns v with θ of one kind of age, until its share of the budget is spent.

    θ ← θ_0 (young),   θ ← where the refit of v_0 has ended (old)
    for k = 0, 1, ... while evaluations are left
        1:  young: θ ← θ_0  where k is a multiple of L = 20; but first, if f at the end of these L steps is above the
            lowest so far by a tenth of what training gains: v ← that of the lowest, or the one before, ξ ← ξ/2
        2:  in every second step: look at the curvature of g at θ; α = 1.5 / L                   (`curvature`)
        3:  h and θ ← T inner steps on g(v, ·), by a probe that starts where θ stands            (`bome.methods.probe`)
        4:  v ← Π(v − ξ · (1 − share spent) · Adam(h)),  ξ = c · rms(v_0) for each tensor of v, 1 where v_0 is 0
        5:  where 3 gives NaN or infinity: θ goes back to where the arm began, and ξ is halved

| arm | θ | right where | the probe has | c |
|---|---|---|---|---|
| `young` | put back to θ_0 every 20 steps | θ can learn g's data by heart | both sides | 0.06 |
| `old` | trained for long, kept | θ is the same model to the end | one side | 0.03 |

A v that is learned with an old θ which can memorise switches g off: weights and losses matter only while θ is young.
A v that is learned with a young θ suits a θ that stops early. So `race` runs both.

Which step ξ suits v cannot be read off its size: the scores of a softmax want to go far, and a network that weighs rows
collapses at once. So the young arm begins with large steps, and takes back those that harm.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.optim import Adam, Optimizer, SparseAdam

from bome._typing import Leaves
from bome.arms.curvature import Curvature
from bome.core.trees import Pair, clone
from bome.data.streams import Data
from bome.errors import NonFiniteError
from bome.inner import GradientDescent
from bome.methods.base import Info
from bome.methods.probe import POINTS, Probe, Sides
from bome.oracles import Oracle
from bome.oracles.traces import snapshot
from bome.problem import Batches, Problem
from bome.stepper import Stepper
from bome.worth import Start
from bome.worth.refit import judges

STEPS = 10
"""T."""
EPISODE = 20
"""L."""
LOOK_EVERY = 2
"""Outer steps between looks at the curvature."""
HARM = 0.1
"""Of what training gains in f: by so much f may be higher at the end of L steps than it was before."""
KEPT = 4
"""Good v that are kept."""
MOST_FAILURES = 10
"""Failed steps after which an arm gives up."""


@dataclass(frozen=True)
class Kind:
    """What makes an arm.

    Attributes:
        sides: of the probe.
        episode: L; 0 where θ is kept.
        c: the first step of v, relative to its size.
    """

    sides: Sides
    episode: int
    c: float


KINDS = {"young": Kind("both", EPISODE, 0.06), "old": Kind("one", 0, 0.03)}
"""The arms."""


@dataclass(frozen=True)
class Choices:
    """What a person has fixed; None where it is chosen here.

    Attributes:
        lr: α.
        steps: T.
        reach: ρ, how far the probe goes from θ, relative to it; σ follows.
        outer_lr: ξ for all of v.
        arm: the only arm to run.
    """

    lr: float | None = None
    steps: int | None = None
    reach: float | None = None
    outer_lr: float | None = None
    arm: str | None = None


class Arm:
    """An arm on the live variables.

    Args:
        name: "young" or "old".
        oracle: of the problem.
        data: batches.
        home: where θ starts; the young arm goes back there again and again.
        curvature: as far as it is known.
        choices: what was fixed.
        size: of each tensor of v at the very beginning.
        first: f at θ_0, and f with the first v at a θ that is at most as old as after L steps.
    """

    def __init__(
        self,
        name: str,
        oracle: Oracle,
        data: Data,
        home: Start,
        curvature: Curvature,
        choices: Choices,
        size: tuple[float, ...],
        first: tuple[float, float] = (math.inf, math.inf),
    ) -> None:
        self.kind, self.home, self.curvature = KINDS[name], home, curvature
        self._data, self._problem, self._fixed = data, oracle.problem, choices.lr is not None
        lr = [choices.outer_lr if choices.outer_lr is not None else self.kind.c * x for x in size]
        inner = GradientDescent(curvature.alpha, choices.steps or STEPS)
        method = Probe(inner, sides=self.kind.sides, reach=choices.reach or Probe.reach)
        self.stepper = Stepper(oracle.problem, method, _optimiser(oracle.problem, lr), oracle=oracle)
        self.lr, self.halved, self.failures = max(lr), 1.0, 0
        self._untrained, self._harmed = first[0], False
        self._good = [(first[1], clone(oracle.problem.point.v))]  # f falls from one to the next

    @property
    def over(self) -> bool:
        """Whether it cannot go on."""
        return self.failures >= MOST_FAILURES

    @property
    def cost(self) -> int:
        """The most evaluations of a step."""
        method = self.stepper.method
        assert isinstance(method, Probe)  # noqa: S101 - made above
        looks = 4 + judges(self._data.outer) * (self.kind.episode > 0)
        return len(POINTS[method.sides]) * method.inner.steps + looks  # the end, f, and a look at the curvature

    def step(self, spent: float) -> Info | None:
        """One outer step; what it has measured.

        Args:
            spent: the share of the arm's evaluations that is spent.
        """
        stepper, k = self.stepper, self.stepper.k
        method = stepper.method
        assert isinstance(method, Probe)  # noqa: S101 - made above
        if self.kind.episode and k % self.kind.episode == 0:  # line 1
            if k:
                self._look_back()
            self.home.write(self._problem)
        batches = self._data.draw(inner=method.inner_batches, outer=method.outer_batches)
        if not self._fixed and k % LOOK_EVERY == 0:  # line 2
            look(stepper.oracle, batches.inner[0], self.curvature)
        stepper.method = replace(method, inner=replace(method.inner, lr=self.curvature.alpha))
        stepper.v_scale = self.halved * max(1 - spent, 0.0)  # line 4
        try:
            info = stepper.step_on(batches)  # lines 3 and 4
        except NonFiniteError:  # line 5
            self.home.write(self._problem)
            self.halved, self.failures = self.halved / 2, self.failures + 1
            return None
        self.failures = 0
        return info

    def _look_back(self) -> None:
        """Keep v if f has not risen much, else take an earlier one again and make smaller steps.

        θ has seen v move, so f can be lower than v deserves: where the best v fails too, the one before it is taken.
        """
        f, lowest = self._judged(), self._good[-1][0]
        harm = not f <= lowest + HARM * abs(self._untrained - lowest)
        if f <= lowest:
            self._good = [*self._good[1 - KEPT :], (f, clone(self._problem.point.v))]
        elif harm:
            if self._harmed and len(self._good) > 1:
                self._good.pop()
            with torch.no_grad():
                for x, good in zip(self._problem.v.leaves, self._good[-1][1], strict=True):
                    x.copy_(good)
            self.stepper.outer_opt.state.clear()
            self.halved /= 2
        self._harmed = harm

    def _judged(self) -> float:
        """f where θ stands, the mean of some batches."""
        oracle, point, restore = self.stepper.oracle, self._problem.point, snapshot(self._problem)
        values = []
        for _ in range(judges(self._data.outer)):
            batches = Batches(inner=(self._data.inner.next(),), outer=(self._data.outer.next(),))
            rows, placed = self._problem.localise(batches)
            v = point.v if rows is None else tuple(x[rows] for x in point.v)
            values.append(float(oracle.outer(v, point.theta, placed.outer[0], "v").value))
        restore()
        return math.fsum(values) / len(values)

    def state_dict(self) -> dict[str, Any]:
        """All that steps change."""
        return {
            "good": [[f, list(v)] for f, v in self._good],
            "harmed": self._harmed,
            "stepper": self.stepper.state_dict(),
            "L": self.curvature.L,
            "halved": self.halved,
            "failures": self.failures,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self.stepper.load_state_dict(state["stepper"])
        self._good, self._harmed = [(f, tuple(v)) for f, v in state["good"]], state["harmed"]
        self.curvature.L, self.halved, self.failures = state["L"], state["halved"], state["failures"]


def look(oracle: Oracle, batch: Any, curvature: Curvature) -> None:
    """Look at the curvature of g where θ stands; two evaluations."""
    problem = oracle.problem
    rows, placed = problem.localise(Batches(inner=(batch,), outer=()))
    v, theta = problem.point
    v = v if rows is None else tuple(x[rows] for x in v)
    restore = snapshot(problem)
    first = oracle.inner(v, theta, placed.inner[0], "theta")

    def gradient(there: Leaves) -> Leaves:
        return oracle.inner(v, there, placed.inner[0], "theta", like=first).grad.theta

    curvature.see(theta, first.grad.theta, gradient)
    restore()


def sizes(point: Pair) -> tuple[float, ...]:
    """The root mean square of each tensor of v; 1 where it is 0."""
    return tuple(float(x.double().square().mean().sqrt()) or 1.0 for x in point.v)


def _optimiser(problem: Problem, lr: list[float]) -> Optimizer:
    """Adam, of which only the ratio of step to learning rate matters: its ε is next to nothing."""
    kind: Any = Adam if problem.v.table is None else SparseAdam
    groups = [{"params": [x], "lr": rate} for x, rate in zip(problem.v.leaves, lr, strict=True)]
    optimiser: Optimizer = kind(groups, eps=float(torch.finfo(torch.float32).tiny) ** 0.5)
    return optimiser
