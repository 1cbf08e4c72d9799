r"""OGDA: optimistic gradient descent-ascent for min-max problems, f = −g (Daskalakis, Ilyas, Syrgkanis, Zeng; 2018).

    for k = 0, 1, ...          F_k = (f_v, g_θ)(v_k, θ_k),   F_{−1} = F_0
        1:  (v, θ)_{k+1} = (v, θ)_k − ξ (2 F_k − F_{k−1})

| symbol | here | symbol | here |
|---|---|---|---|
| F_k, F_{k−1} | `now`, `past` | ξ | the learning rates of the two optimisers |

Cost per step: 1 evaluation of g and none of f, since f_v = −g_v; variant `published` 2 evaluations of g. State: the
past gradients, and k. The outer batch is not used.

On f = vθ the complex number v + iθ follows u_{k+1} = u_k + iξ(2u_k − u_{k−1}): it shrinks for ξ < 1/√3, by about
1 − ξ²/2 a step.

Where the code of the BOME authors differs (variant `published`): v moves first, and θ with the gradient at the new v;
the past point is the last recorded one, which they do after every tenth step, and twice the start at first, which makes
the first step of a bilinear problem vain. Held fixed for ten steps it acts like an anchor: the iterates reach 1e-11 in
2000 steps of 0.05, where OGDA proper needs 20 000. Here the past gradients are kept in place of the past point, and the
new v is that of a plain gradient step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from bome._checks import check_choice
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, axpy, number, scale, zeros_like
from bome.methods.base import Batches, Info, Method, Step
from bome.methods.gda import field, minimax_refusal
from bome.oracles.base import Oracle
from bome.problem import Problem

RECORD = 10
"""The authors' code records every tenth iterate."""

Form = Literal["proper", "published"]
"""OGDA proper, or as coded by the BOME authors."""


@dataclass(frozen=True)
class OGDA(Method):
    """Optimistic gradient descent-ascent.

    Attributes:
        form: "proper", or "published" as coded by the BOME authors.
    """

    form: Form = "proper"

    name: ClassVar[str] = "ogda"
    settles = "solution"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"published": {"form": "published"}}

    def __post_init__(self) -> None:
        check_choice("form", self.form, Form)

    def refusal(self, problem: Problem) -> str | None:
        """Refuse all but min-max problems."""
        return minimax_refusal(problem)

    def init(self, oracle: Oracle, point: Pair) -> State:
        """No past yet."""
        k = number(0, point.theta[0])
        return {"past_v": zeros_like(point.v), "past_theta": zeros_like(point.theta), "k": (k,)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step."""
        (v, theta), (k,) = point, state["k"]
        g = oracle.inner(v, theta, batches.inner[0])
        now, past = field(g.grad), Pair(state["past_v"], state["past_theta"])
        if self.form == "proper":
            past = _where(k == 0, now, past)
            keep = now
        else:
            past = _where(k % RECORD == 1, now, past)  # the point after step 0, 10, ... is this one
            past = keep = _where(k == 0, Pair(scale(2.0, now.v), scale(2.0, now.theta)), past)
        d_v = axpy(2.0, now.v, scale(-1.0, past.v))  # line 1
        if self.form == "published":
            moved = tuple(x - r * d for x, d, r in zip(v, d_v, metric.v, strict=True))
            now = Pair(now.v, oracle.inner(moved, theta, batches.inner[0], "theta").grad.theta)
        d_theta = axpy(2.0, now.theta, scale(-1.0, past.theta))
        new = {"past_v": keep.v, "past_theta": keep.theta, "k": (k + 1,)}
        return Step(Pair(d_v, d_theta), new, Info(-g.value, g.value))


def _where(condition: Tensor, a: Pair, b: Pair) -> Pair:
    """a if the condition holds, else b."""
    v, theta = (
        tuple(torch.where(condition, x, y) for x, y in zip(p, q, strict=True)) for p, q in zip(a, b, strict=True)
    )
    return Pair(v, theta)
