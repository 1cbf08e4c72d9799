r"""Probe: the hypergradient from a second inner point that starts where θ stands in every step; first order only.

    state: k, and θ_0 where θ is put back to it
    for k = 0, 1, ...
        1:  θ_k ← θ_0  where k is a multiple of L                                              (variant `young`)
        2:  d = f_θ(v_k, θ_k; ω),   σ = α T ‖d‖ / (ρ s),   s = max(‖θ_k‖, α T ‖g_θ(v_k, θ_k; ζ_0)‖)
        3:  z^(0) = y^(0) = θ_k
            z^(t+1) = z^(t) − α g_θ(v_k, z^(t); ζ_t)
            y^(t+1) = y^(t) − α (g_θ(v_k, y^(t); ζ_t) + d/σ),                                    t = 0 .. T−1
        4:  h = f_v(v_k, θ_k; ω) + σ · mean of g_v(v_k, y^(t); ζ_t) − g_v(v_k, z^(t); ζ_t) over t = ⌊T/2⌋+1 .. T
        5:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = z^(T)

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | ζ_0 .. ζ_T, ω | `batches.inner`, `batches.outer` |
| ρ | `reach` | L | `episode`; 0 stands for never |
| d/σ | `pull` | ξ_v | the learning rate of the optimiser of v |

θ is trained on g alone: nothing of f flows into it, and y is thrown away after the step. y sees that f pulls at θ, too,
and g(v, y) − g(v, z) tells what v must do so that θ goes there by itself. With H = ∇²_θθ g and B = ∇²_vθ g constant

    y^(t) − z^(t) = −(1/σ) H⁻¹ (I − (I − αH)^t) d,     h = f_v − B H⁻¹ (I − mean_t (I − αH)^t) f_θ,

so that h is the hypergradient but for what t inner steps leave: where αμt is small for the curvature μ of a direction,
v learns nothing of that direction. σ drops out; elsewhere it leaves a bias of O(1/σ), with both sides of O(1/σ²).
Variant `symmetric`: a third point y⁻ is pulled by −d/σ, and (g_v(y) − g_v(y⁻))/2 stands for the difference in line 4.
Variant `young`: both sides, and θ is put back to its start every L = 20 steps, so that v is right for a θ of every age
up to L·T, and never for one that has learned g's data by heart.

Cost per step: 2T + 1 evaluations of g and 1 of f; with both sides 3T and 1. No second-order products; the first inner
step of all points shares one gradient. State: k, and θ_0 where L > 0.

Where we differ: it has no paper. F2SA (Kwon et al., 2023) has the same two points, but its y is kept from step to step,
is θ itself, and so learns the data of f; at a fixed λ that ends at a penalised minimum. `darts` has one difference of
gradients without inner steps, which makes H⁻¹ ≈ I.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import check_choice, check_count, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, clone, dot, number, scale, where, zeros_like
from bome.errors import ProblemError
from bome.inner import GradientDescent
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.trajectory import projected
from bome.oracles.base import Oracle, Wrt

Sides = Literal["one", "both"]
"""y alone beside z, or y and y⁻ on both sides of it."""


class Walk(NamedTuple):
    """An inner point on its way along g.

    Attributes:
        sign: how f pulls at it; 0 for z.
        share: of its ∇_v g in the difference of line 4.
        at: where it stands.
        buffers: those of the inner map.
    """

    sign: float
    share: float
    at: Leaves
    buffers: Any


POINTS: Mapping[Sides, tuple[tuple[float, float], ...]] = {
    "one": ((0.0, -1.0), (1.0, 1.0)),
    "both": ((0.0, 0.0), (1.0, 0.5), (-1.0, -0.5)),
}
"""Sign and share of z, y and, on both sides, y⁻."""


@dataclass(frozen=True)
class Probe(Method):
    """The hypergradient from inner points that f pulls at, while θ is trained on g alone.

    Attributes:
        inner: α and T; GradientDescent, since the length of the pull follows from α.
        sides: "one" point beside z, or "both" sides of it.
        episode: L, after how many steps θ is put back to its start; 0 for never.
        reach: ρ, how far y goes from z, relative to θ.
        draw: a "fresh" inner batch for each inner step, or "one" for all of them.
    """

    inner: GradientDescent
    sides: Sides = "one"
    episode: int = 0
    reach: float = 0.03
    draw: Literal["fresh", "one"] = "fresh"

    name: ClassVar[str] = "probe"
    settles = "solution"
    moves_theta: ClassVar[bool] = False
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "symmetric": {"sides": "both"},
        "young": {"sides": "both", "episode": 20},
    }

    def __post_init__(self) -> None:
        if not isinstance(self.inner, GradientDescent):
            raise ProblemError(f"{self.name} needs inner=GradientDescent(lr=..., steps=...), got {self.inner!r}")
        check_choice("sides", self.sides, Sides)
        check_count("episode (L)", self.episode, least=0)
        check_positive("reach (ρ)", self.reach)
        check_choice("draw", self.draw, Literal["fresh", "one"])

    @property
    def inner_batches(self) -> int:
        """One for each inner step and one for the end, or one for all."""
        return self.inner.steps + 1 if self.draw == "fresh" else 1

    def theta_steps(self, k: int) -> int:
        """T in each step; a young θ has never made more than L·T."""
        return (min(k, self.episode) if self.episode else k) * self.inner.steps

    def init(self, oracle: Oracle, point: Pair) -> State:
        """k = 0, and θ_0 where θ is put back to it."""
        start = {"start": clone(point.theta)} if self.episode else {}
        return {"k": (number(0, point.theta[0]),), **start}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), (k,), T = point, state["k"], self.inner.steps  # noqa: N806
        if self.episode:  # line 1
            theta = where(k % self.episode == 0, state["start"], theta)
        g = oracle.inner(v, theta, batches.inner[0], "theta")
        f = oracle.outer(v, theta, batches.outer[0])
        sigma, pull = self.pull(theta, f.grad.theta, g.grad.theta)  # line 2

        def advanced(walk: Walk, gradient: Leaves) -> Walk:
            moved, buffers = self.inner.advance(walk.at, axpy(walk.sign, pull, gradient), walk.buffers)
            return walk._replace(at=projected(oracle.problem, moved), buffers=buffers)

        start = self.inner.start(theta)  # line 3
        walks = [advanced(Walk(*point, theta, start), g.grad.theta) for point in POINTS[self.sides]]
        f, g = (x._replace(grad=Pair(x.grad.v, ())) for x in (f, g))  # nothing of the size of θ is kept in vain
        total = zeros_like(v)
        for t in range(1, T + 1):
            batch = batches.inner[min(t, len(batches.inner) - 1)]
            for i, walk in enumerate(walks):
                wrt = _asked(moves=t < T, counts=t > T // 2 and walk.share != 0)
                if wrt is None:
                    continue
                at = oracle.inner(v, walk.at, batch, wrt, like=g)
                if at.grad.v:
                    total = axpy(walk.share, at.grad.v, total)  # line 4
                if at.grad.theta:
                    walks[i] = advanced(walk, at.grad.theta)
        h = axpy(sigma / (T - T // 2), total, f.grad.v)
        new: State = {**state, "k": (k + 1,)}
        return Step(Pair(h, ()), new, Info(f.value, g.value), new_theta=walks[0].at)  # line 5

    def pull(self, theta: Leaves, d: Leaves, g_theta: Leaves) -> tuple[Tensor, Leaves]:
        """σ and d/σ; where f does not pull at θ both are 0."""
        way = self.inner.lr * self.inner.steps / (1 - self.inner.momentum)
        s = torch.maximum(dot(theta, theta).sqrt(), way * dot(g_theta, g_theta).sqrt())
        size = dot(d, d).sqrt()
        far = self.reach * torch.where(s > 0, s, 1.0)
        sigma = way * size / far
        return sigma, scale(torch.where(sigma > 0, 1 / torch.where(sigma > 0, sigma, 1.0), 0.0), d)


def _asked(*, moves: bool, counts: bool) -> Wrt | None:
    """Of which variables the gradient at an inner point is asked for."""
    if moves:
        return "both" if counts else "theta"
    return "v" if counts else None
