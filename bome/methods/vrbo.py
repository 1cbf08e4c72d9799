r"""VRBO: variance-reduced bilevel optimisation by recursive differences (Yang, Ji, Liang; NeurIPS 2021), Algorithm 2.

    u estimates ∇_θ g, w the hypergradient ĥ (a Neumann series, as in stocBiO)
    for k = 0, 1, ...
        1:  if k mod p = 0:   u = ∇_θ g(v_k, θ_k; L),   w = ĥ(v_k, θ_k; L)                with a large batch L
        2:  v_{k+1} = v_k − ξ_v w
        3:  (v', θ') = (v_k, θ_k),   (v, θ) = (v_{k+1}, θ_k)
            for t = 0 .. T:
        4:      u ← u + ∇_θ g(v, θ; S_t) − ∇_θ g(v', θ'; S_t),   w ← w + ĥ(v, θ; S_t) − ĥ(v', θ'; S_t)
        5:      (v', θ') = (v, θ),   and if t < T:   θ ← θ − α u
        6:  θ_{k+1} = θ

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | p | `p` |
| η, Q of ĥ | `neumann_lr`, `Q` | L | the last `large` batches of a step, averaged |
| v' | `state["v"]` | S_t | the t-th of the first T + 1 batches |

A step of ours is cut out of this loop between lines 2 and 3, since line 2 belongs to the optimiser of v: it does lines
3 to 6 of iteration k−1 (nothing if k = 0), then line 1 of iteration k, and returns w.

"Batch" here means one outer batch and as many inner ones as ĥ takes, E = Q + 1 (or 1 with `draw="one"`): those of the
Hessians and that of B, which also serves ∇_θ g. A step takes T + 1 + `large` of them, those for line 1 even where it is
not due. Cost per step: 2(T + 1) estimates, and `large` more if k mod p = 0 (only those if k = 0); an estimate is E
evaluations of g, 1 of f, Q Hessian-vector products and 1 cross product. State: u, w, v', and `age`, whose length is the
number of steps since line 1 (a length needs no look at the device).

On the full batch the differences telescope: u and w are ∇_θ g and ĥ at the current point, and VRBO is stocBiO.

Where published code differs (variant `published`): the order is line 1, then lines 3 to 5 from (v_{k−1}, θ_k) to
(v_k, θ_k) with a θ-step after *every* difference, T + 1 in all, so that u and w do not belong to the final θ, and the
difference of v spoils what line 1 has just made; then line 2. Line 1 uses a batch like the others. ĥ is stocBiO's as
coded. Its cost is 2(T + 1) estimates, and 1 more if k mod p = 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import check_choice, check_count
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, add, clone, sub
from bome.inner import DifferentiableMap
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import refuse_other_sets
from bome.methods.stocbio import (
    PUBLISHED,
    Draw,
    Estimate,
    Series,
    batches_of_estimate,
    check_estimate,
    estimate,
    neumann_rate,
    refuse_per_sample,
)
from bome.methods.trajectory import check_differentiable, projected
from bome.oracles.autograd import AutogradOracle
from bome.oracles.base import Needs, Oracle
from bome.problem import Problem

Order = Literal["paper", "published"]


class Point(NamedTuple):
    """(v, θ), the estimates u of ∇_θ g and w of the hypergradient (empty before the first), and the last value of f."""

    v: Leaves
    theta: Leaves
    u: Leaves
    w: Leaves
    f: Tensor


@dataclass(frozen=True)
class VRBO(Method):
    """Recursive variance reduction of both gradients.

    Attributes:
        inner: α and T of the inner loop.
        Q: Hessian-vector products of ĥ.
        neumann_lr: η of ĥ; by default the step size of the inner map.
        p: outer steps from one refresh to the next.
        large: batches averaged for a refresh.
        order: as in the "paper", or as "published".
        series: of ĥ: "full" is right; "published" is as coded.
        draw: "independent" batches for each Hessian and for B, or "one" for all of them.
    """

    inner: DifferentiableMap
    Q: int = 3
    neumann_lr: float | None = None
    p: int = 3
    large: int = 10
    order: Order = "paper"
    series: Series = "full"
    draw: Draw = "independent"

    name: ClassVar[str] = "vrbo"
    moves_theta: ClassVar[bool] = False
    accuracy: ClassVar[tuple[str, ...]] = ("Q",)
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    settles = "solution"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "published": {"order": "published", "large": 1, **PUBLISHED},
    }

    def __post_init__(self) -> None:
        check_differentiable(self.name, self.inner)
        check_estimate(self.Q, self.series, self.draw)
        check_count("p", self.p)
        check_count("large", self.large)
        check_choice("order", self.order, Order)
        neumann_rate(self.neumann_lr, self.inner)

    @property
    def inner_batches(self) -> int:
        """Those of T + 1 differences and of a refresh."""
        return self.outer_batches * batches_of_estimate(self.Q, self.draw)

    @property
    def outer_batches(self) -> int:
        """One for each difference and for each part of a refresh."""
        return self.inner.steps + 1 + self.large

    @property
    def period(self) -> int:
        """From one refresh to the next."""
        return self.p

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of p steps after the first."""
        n = 2 * (self.inner.steps + 1) * self.p + self.large
        return {"g": n * batches_of_estimate(self.Q, self.draw), "f": n, "hvp": n * self.Q, "xvp": n}

    def refusal(self, problem: Problem) -> str | None:
        """The estimate of the hypergradient is of all of v; and it knows which entries of θ are free in a box."""
        return refuse_per_sample(problem) or refuse_other_sets(problem)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """No estimates yet."""
        return {"u": (), "w": (), "v": clone(point.v), "age": ()}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """Lines 3 to 6 of the iteration before, then line 1; line 2 is left to the optimiser of v."""
        v, theta = point
        now = Point(v, theta, state["u"], state["w"], torch.zeros(()))
        e = partial(self._estimate, second_order(oracle), batches)  # e(i, v, θ): ∇_θ g and ĥ on the i-th batch
        due = len(state["age"]) in (0, self.p)
        if due and self.order == "published":
            now = self._refreshed(e, now)
        if now.u:
            now = self._moved(oracle.problem, e, now, state["v"])  # lines 3 to 6
        if due and self.order == "paper":
            now = self._refreshed(e, now)  # line 1
        age = (*(() if due else state["age"]), torch.zeros((), device=now.f.device))
        after: State = {"u": now.u, "w": now.w, "v": clone(v), "age": age}
        return Step(Pair(clone(now.w), ()), after, Info(now.f), new_theta=now.theta)

    def _refreshed(self, e: Callable[[int, Leaves, Leaves], Estimate], now: Point) -> Point:
        """Line 1."""
        parts = [e(i, now.v, now.theta) for i in range(self.inner.steps + 1, self.outer_batches)]
        u, w = _mean([part.g for part in parts]), _mean([part.h for part in parts])
        return now._replace(u=u, w=w, f=parts[0].f)

    def _moved(
        self, problem: Problem, e: Callable[[int, Leaves, Leaves], Estimate], now: Point, v_old: Leaves
    ) -> Point:
        """Lines 3 to 6."""
        v, theta, u, w, f = now
        old, buffers = Pair(v_old, theta), self.inner.start(theta)  # line 3
        for t in range(self.inner.steps + 1):
            new, before = e(t, v, theta), e(t, *old)
            u, w, f = add(u, sub(new.g, before.g)), add(w, sub(new.h, before.h)), new.f  # line 4
            old = Pair(v, theta)  # line 5
            if t < self.inner.steps or self.order == "published":
                theta, buffers = self.inner.advance(theta, u, buffers)
                theta = projected(problem, theta)
        return Point(v, theta, u, w, f)  # line 6

    def _estimate(self, oracle: AutogradOracle, batches: Batches, i: int, v: Leaves, theta: Leaves) -> Estimate:
        size = batches_of_estimate(self.Q, self.draw)
        inner, outer = batches.inner[i * size : (i + 1) * size], batches.outer[i]
        return estimate(oracle, v, theta, inner, outer, neumann_rate(self.neumann_lr, self.inner), self.Q, self.series)


def _mean(estimates: Sequence[Leaves]) -> Leaves:
    return tuple(torch.stack(leaf).mean(0) for leaf in zip(*estimates, strict=True))
