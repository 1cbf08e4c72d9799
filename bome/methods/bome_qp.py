r"""BOME with constraints: each is a further row of the small quadratic problem of the barrier, with a multiplier.

    min f(v, θ)   subject to   H(v, θ) ≤ 0,   θ ∈ argmin { g(v, ·) : h(v, ·) ≤ 0 }

    state: the last point taken x_k = (v, θ)_k with its λ, z and μ, step sizes, ε, the rows kept of ∇(h, H)
    for each step, at (v, θ):
        1:  z, μ:  T looks at g(v, ·), the first at z or at θ, whichever is lower, others by small steps as in line 4,
            min_d ‖d‖²/2s + ⟨∇_θ g, d⟩  subject to  h + ⟨∇_θ h, d⟩ ≤ 0,  with multipliers μ
        2:  q̂ = g(v, θ) − g(v, z) − ⟨μ, h(v, z)⟩
            ∇q̂ = ( ∇_v g(v, θ) − ∇_v g(v, z) − μᵀ∇_v h(v, z) ,  ∇_θ g(v, θ) )
        3:  where f + w·max((q̂ − ε, h, H), 0) is too high:   (v, θ) ← x_k + 0.4 ((v, θ) − x_k),   and the step ends
        4:  min_δ ‖∇f − δ‖²  subject to  s⟨∇q̂, δ⟩ ≥ η (q̂ − ε)   and   s⟨∇c, δ⟩ ≥ c  for each c of (h, H)
            δ = ∇f + λ_0 ∇q̂ + Σ λ_i ∇c_i,   λ ≥ 0
        5:  x_{k+1} = (v, θ);   (v, θ) ← x_{k+1} − s δ,   shortened to the radius
        6:  ε ← ρ ε   where q̂ ≤ 1.5 ε and the constraints hold, else ρ^0.3 ε

| symbol | here | symbol | here |
|---|---|---|---|
| T; α, the first s | `inner.steps`; `inner.lr` | λ_0 .. λ_k, μ | `walk.lam`, `low.mu` |
| η, ρ | `share`, `rate` | ε | `epsilon`, from 10 units of g to `floor` units |
| s, radius, w, lines 3 to 5 | `core.walk` | rows kept | `oracles.linearised` |

An equality is two constraints. Step sizes follow Barzilai and Borwein. The learning rates of the optimisers do not
matter if these are plain gradient descent: the direction of v is divided by them. A row of ∇(h, H) is computed again
only where the values of its constraint contradict it, so that affine constraints cost one Jacobian. With constraints, a
point where a loss or a constraint is not finite is too high in line 3.

Cost per step: T + 1 evaluations of g and 1 of f, and the rows that are computed again; no second-order products. State:
two points, a gradient, and the rows at both of them.

Where we differ: from BOME, which has one row (k = 0), its λ in closed form, φ instead of q̂ ≤ ε, and takes every step.
It has no paper. ε falls slowly, since at once at a small ε the step would follow θ*(v) closely and get stuck with it;
it falls in any case, since with noise in ∇q̂ a step takes away less of q̂ than its row says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._checks import check_positive, check_share
from bome._typing import Array, Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, joined, parted
from bome.core.walk import MEMORY, TRIES, WEIGHT, Seen, Walk, begin
from bome.errors import ProblemError, UnsupportedError
from bome.inner import GradientDescent
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.trajectory import projected
from bome.oracles.base import Eval, Oracle
from bome.oracles.linearised import Linearised, Rows, linearised
from bome.problem import Problem

WIDE = 10.0
"""The first ε, in units of g."""
HOLD = 1e-2
"""The violation that counts as none in line 6, in units of the largest entry of (v, θ)."""
SLOW = 0.3
"""The power of ρ in line 6 where it does not."""
GROUPS = ("last", "z", "rows", "offsets", "multipliers", "inner_multipliers", "weights", "past", "sizes", "epsilon")
"""Of the state."""


@dataclass(frozen=True)
class BOMEQP(Method):
    """BOME with constraints.

    Attributes:
        inner: T, and α for the first step; later step sizes are found on the way.
        share: η, which part of q̂ − ε a step must take away.
        rate: ρ, what is left of ε after a step.
        floor: where ε ends, in units of g.
    """

    inner: GradientDescent
    share: float = 0.9
    rate: float = 0.95
    floor: float = 1e-6

    name: ClassVar[str] = "bome-qp"
    constrained: ClassVar[bool] = True
    chooses: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    moves_theta: ClassVar[bool] = False
    settles = "solution"

    def __post_init__(self) -> None:
        if not isinstance(self.inner, GradientDescent):
            raise ProblemError(f"{self.name} needs inner=GradientDescent(lr=..., steps=...), got {self.inner!r}")
        check_share("share (η)", self.share)
        check_share("rate (ρ)", self.rate)
        check_positive("floor", self.floor)

    def refusal(self, problem: Problem) -> str | None:
        """It compares points of two steps; and a projection would leave the linearised constraints."""
        if problem.v.table is not None:
            return "it compares v with that of the last step, of which a PerSample has other rows: use a tensor for v"
        if problem.constraints and (problem.project_v or problem.project_theta):
            return "it takes no projections beside constraints: write the sets of v and theta as constraints, too"
        return None

    def init(self, oracle: Oracle, point: Pair) -> State:
        """Nothing is known."""
        if oracle.ranks is not None:
            raise UnsupportedError(f"{self.name} works in one process: use bome with DDP and FSDP2")
        return dict.fromkeys(GROUPS, ())

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        kept, x = Kept.of(state), joined(point)
        f, g = oracle.outer(*point, batches.outer[0]), oracle.inner(*point, batches.inner[0])
        c = linearised(oracle, point, batches, "both", g, kept and kept.rows)
        defined = np.isfinite([float(f.value), float(g.value), *c.values]).all()
        if kept is not None and oracle.problem.constraints and kept.walk.tries < TRIES and not defined:
            f_k, q_k = _numbers(kept.walk.past[-1, :2])
            return _moved(oracle, point, kept._replace(walk=kept.walk.back(x)), metric, Info(f_k, None, q_k))  # line 3
        low = self.lower(oracle, point, g, c, batches, kept)  # line 1: z, μ
        q, dq = float(g.value) - low.value, joined(g.grad) - low.grad  # line 2: q̂ and ∇q̂
        seen = Seen(x, float(f.value), joined(f.grad), np.append(q, c.values), torch.cat([dq[None], c.rows]))
        unit, size = max(1.0, abs(float(g.value))), max(1.0, float(x.abs().max()))
        epsilon = max(q, WIDE * unit) if kept is None else kept.epsilon
        limits, share = _first(epsilon, 0.0, len(seen.c)), _first(self.share, 1.0, len(seen.c))
        if kept is None:
            walk = begin(seen, limits, share, self.inner.lr)
        elif kept.walk.helps(seen, limits):
            walk = kept.walk.on(seen, limits, share)  # lines 4 and 5: λ, δ
        else:
            walk = kept.walk.back(x)  # line 3
        if walk.x is x:
            holds = q <= 1.5 * epsilon and c.values.max(initial=0.0) <= HOLD * size
            epsilon = max(self.rate ** (1.0 if holds else SLOW) * epsilon, self.floor * unit)  # line 6
        new = Kept(walk, epsilon, low.z, low.mu, low.s, (c.rows, c.offset), low.rows)
        info = Info(f.value, g.value, *_numbers([q, walk.lam[0]]))
        return _moved(oracle, point, new, metric, info)

    def lower(
        self, oracle: Oracle, point: Pair, g: Eval, c: Linearised, batches: Batches, kept: "Kept | None"
    ) -> "Low":
        """Line 1: the walk of z, from the lower of two points."""
        n, k = sum(x.numel() for x in point.v), c.inner
        limits, share = np.zeros(k), np.ones(k)

        def seen(theta: Leaves, g: Eval, c: Linearised) -> Seen:
            grad = joined(Pair((), g.grad.theta))
            return Seen(joined(Pair((), theta)), float(g.value), grad, c.values[:k], c.rows[:k, n:])

        start, rows = seen(point.theta, g, c), (c.rows[:k], c.offset[:k])
        ahead, mu, s = start.x, np.zeros(k), self.inner.lr
        if kept is not None:
            ahead, mu, s, rows = kept.z, kept.mu, kept.s, kept.inner_rows
        for t in range(self.inner.steps):
            theta = projected(oracle.problem, parted(ahead, Pair((), point.theta)).theta)
            g_z = oracle.inner(point.v, theta, batches.inner[0], like=g)
            c_z = linearised(oracle, Pair(point.v, theta), batches, "inner", g_z, rows)
            here, rows = seen(theta, g_z, c_z), (c_z.rows, c_z.offset)
            if t == 0:
                lower = _merit(here, mu) <= _merit(start, mu)
                walk, taken = begin(here if lower else start, limits, share, s), (g_z, c_z) if lower else (g, c)
            elif walk.helps(here, limits):
                walk, taken = walk.on(here, limits, share), (g_z, c_z)
            else:
                walk = walk.back(here.x)
            ahead = walk.ahead
        g_z, c_z = taken
        value = float(g_z.value) + float(walk.lam @ c_z.values[:k])
        by_v = torch.from_numpy(walk.lam).to(walk.x) @ c_z.rows[:k, :n]
        by_v = by_v + joined(Pair(g_z.grad.v, ())) if n else by_v
        return Low(value, torch.cat([by_v, torch.zeros_like(walk.x)]), walk.x, walk.lam, walk.s, rows)


class Low(NamedTuple):
    """The inner problem at v, as far as T looks go.

    Attributes:
        value: g(v, z) + ⟨μ, h(v, z)⟩.
        grad: its gradient by v, and zeros for θ.
        z: z.
        mu: μ.
        s: the step size.
        rows: kept of ∇h.
    """

    value: float
    grad: Tensor
    z: Tensor
    mu: Array
    s: float
    rows: Rows


class Kept(NamedTuple):
    """What the state holds.

    Attributes:
        walk: of (v, θ), with λ.
        epsilon: ε.
        z: z.
        mu: μ.
        s: the step size of z.
        rows: kept of ∇(h, H) at (v, θ).
        inner_rows: kept of ∇h at z.
    """

    walk: Walk
    epsilon: float
    z: Tensor
    mu: Array
    s: float
    rows: Rows
    inner_rows: Rows

    @classmethod
    def of(cls, state: State) -> "Kept | None":
        """From the tensors of a state; None before the first step."""
        if not state["last"]:
            return None
        (x, slope), (z,), (rows, inner_rows) = state["last"], state["z"], state["rows"]
        lam, mu, weights, past, offsets, (s, radius, tries, inner_s), (epsilon,) = (
            np.array([float(number) for number in state[name]])
            for name in ("multipliers", "inner_multipliers", "weights", "past", "offsets", "sizes", "epsilon")
        )
        walk = Walk(x, x, slope, lam, weights, past.reshape(MEMORY, -1), float(s), float(radius), int(tries))
        k = len(rows)
        return cls(walk, float(epsilon), z, mu, float(inner_s), (rows, offsets[:k]), (inner_rows, offsets[k:]))

    def state(self) -> State:
        """As tensors."""
        walk = self.walk
        return {
            "last": (walk.x, walk.slope),
            "z": (self.z,),
            "rows": (self.rows[0], self.inner_rows[0]),
            "offsets": _numbers([*self.rows[1], *self.inner_rows[1]]),
            "multipliers": _numbers(walk.lam),
            "inner_multipliers": _numbers(self.mu),
            "weights": _numbers(walk.weights),
            "past": _numbers(walk.past.reshape(-1)),
            "sizes": _numbers([walk.s, walk.radius, walk.tries, self.s]),
            "epsilon": _numbers([self.epsilon]),
        }


def _moved(oracle: Oracle, point: Pair, new: Kept, metric: Metric, info: Info) -> Step:
    """The step to where the walk wants to look."""
    ahead = parted(new.walk.ahead, point)
    delta = tuple((x - y) / (rate or 1.0) for x, y, rate in zip(point.v, ahead.v, metric.v, strict=True))
    return Step(Pair(delta, ()), new.state(), info, new_theta=projected(oracle.problem, ahead.theta))


def _numbers(values: Sequence[float] | Array) -> Leaves:
    return tuple(torch.tensor(float(value), dtype=torch.float64) for value in values)


def _first(first: float, others: float, length: int) -> Array:
    """A vector whose first entry differs from all others."""
    return np.append(first, np.full(length - 1, others))


def _merit(seen: Seen, mu: Array) -> float:
    return seen.f + WEIGHT * float(mu @ np.maximum(seen.c, 0.0))
