"""Transposed derivatives of maps of (v, θ): what second-order methods are built of."""

from collections import Counter
from collections.abc import Callable

import torch

from bome._typing import Leaves
from bome.core.trees import Pair
from bome.oracles.base import Wrt

Pull = Callable[[Leaves, Wrt], Pair]
"""z ↦ (J_vᵀ z, J_θᵀ z); the part that is not asked for is empty."""


class Linear:
    """A map of (v, s) at a point: its value, and products with its transposed Jacobian. Holds a graph while it lives.

    For the gradient map (v, θ) ↦ g_θ the products are the Hessian-vector product Hz and the cross product Bz.

    Attributes:
        value: the value of the map, detached.
    """

    def __init__(self, outputs: Leaves, v: Leaves, s: Leaves, counts: Counter[str]) -> None:
        self.value = tuple(x.detach() for x in outputs)
        self._outputs, self._v, self._s, self._counts = outputs, v, s, counts

    def pull(self, z: Leaves, wrt: Wrt = "both") -> Pair:
        """(J_vᵀ z, J_sᵀ z): counted as one "xvp" and one "hvp"."""
        inputs = (self._v if wrt != "theta" else ()) + (self._s if wrt != "v" else ())
        self._counts["xvp"] += wrt != "theta"
        self._counts["hvp"] += wrt != "v"
        used = [(y, c) for y, c in zip(self._outputs, z, strict=True) if y.requires_grad]
        if not used or not inputs:
            parts: Leaves = tuple(torch.zeros_like(x) for x in inputs)
        else:
            parts = torch.autograd.grad(
                [y for y, _ in used],
                inputs,
                grad_outputs=[c for _, c in used],
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
        n = len(self._v) if wrt != "theta" else 0
        return Pair(tuple(parts[:n]), tuple(parts[n:]))
