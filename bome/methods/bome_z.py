r"""BOME with a point of its own that follows θ*(v): θ is still trained on f and g, but v learns from z.

    state: z, z = θ_0 at the start
    for k = 0, 1, ...
        1:  θ^(0) = z_k where g(v_k, z_k) < g(v_k, θ_k), else θ_k
            θ^(t+1) = θ^(t) − α ∇_θ g(v_k, θ^(t)),   t = 0 .. T−1;      z_{k+1} = θ^(T)
        2, 3, 4:  q̂, ∇q̂, λ_k and the step as in BOME

| symbol | here | symbol | here |
|---|---|---|---|
| z_k | `z`, in the state | θ^(T) | `ahead.end` |
| T, α | `inner.steps`, `inner.lr` | others | as in BOME |

BOME looks ahead from θ_k, which f pulls away from θ*(v); T steps do not bring it back where θ is large, so that q̂ and
∇_v q̂ see only the last bit of the way. z has been going since the first step, T inner steps for each outer one, and no
gradient of f has ever moved it. Where z lags behind θ, because θ moves with momentum or with larger steps, the
look-ahead starts from θ as in BOME: so q̂ is never below 0 as long as inner steps decrease g.

Cost per step: T + 2 evaluations of g, one more than BOME, and 1 of f; no second-order products. The gradients at θ_k
and z_k are known, so one of them is the first inner step. State: z.

In place it needs z_k, θ_k and the gradient of g beside the working copy; z_{k+1} takes the place of θ_k's copy.

Where we differ: it has no paper. PBGD (Shen and Chen, 2023) keeps its ω in the same way (variant `warm`), with a fixed
multiplier, and does not look where θ is the better start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bome._typing import State
from bome.core.trees import Pair, clone
from bome.methods.base import Batches
from bome.methods.bome import BOME
from bome.oracles.base import Ahead, Eval, Oracle


@dataclass(frozen=True)
class BOMEZ(BOME):
    """BOME with kept z; the attributes are those of BOME."""

    name: ClassVar[str] = "bome-z"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "fresh": {"draw": "fresh"},
        "preconditioned": {"geometry": "steps"},
    }

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = θ_0."""
        return {"z": clone(point.theta)}

    def ahead(self, oracle: Oracle, point: Pair, g: Eval, state: State, batches: Batches) -> Ahead:
        """The look-ahead from z_k, or from θ_k where g is lower there."""
        return oracle.look_ahead(point.v, point.theta, g, self.inner, batches.inner, state["z"])

    def kept(self, state: State, ahead: Ahead) -> State:
        """z_{k+1} = θ^(T)."""
        return {"z": ahead.end}
