"""A walk down f under constraints c ≤ r, in steps of a small QP that are tried and taken only where they help.

    told of x, f, ∇f, c and the rows A of its Jacobian there:
        1:  M = f + Σ w_i max(c_i − r_i, 0);  where M is higher than at each of the last 5 points taken, up to 5 times:
                ahead = x_k + 0.4 (x − x_k),   and the radius becomes the length of that
        2:  s = ⟨Δx, Δx⟩ / ⟨Δx, Δ(∇f + Aᵀλ_k)⟩,  Δ from x_k to x,  but at least 0.4^(1 + tries) of what it was
            x_{k+1} = x
        3:  d, λ_{k+1}:  min_d |d|²/2s + ⟨∇f, d⟩  subject to  A d ≤ κ (r − c)
        4:  w = max(0.9 w, 1.5 λ_{k+1});   ahead = x_{k+1} + d, shortened to the radius, which grows by a half

After 5 tries what is known of x_k counts as out of date: the point is taken, M begins anew, and so does the radius.
`ahead` is where the walk wants to look next; what it is told may be of another point.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.core.multipliers import multipliers
from bome.core.trees import times

MEMORY = 5
"""Points taken that a value is compared with."""
TRIES = 5
"""How often a way is shortened before the point is taken as it is."""
SHORTER, LONGER = 0.4, 1.5
"""Factors of the radius."""
WEIGHT, FORGETS = 1.5, 0.9
"""Of a violation in M, in multipliers; and what is left of larger weights after a step."""
REACH = 0.5
"""The largest radius, in units of ‖x‖, which counts at least as 1."""
RISE = 1e-3
"""What M may rise by, relative to itself, where the radius is 1."""
WIDEST = 1e3
"""The largest s, in units of the one that takes a step of the gradient alone to the radius."""


class Seen(NamedTuple):
    """What is seen at a point.

    Attributes:
        x: the point.
        f: f there.
        grad: ∇f.
        c: the constraints.
        rows: A.
    """

    x: Tensor
    f: float
    grad: Tensor
    c: Array
    rows: Tensor


class Walk(NamedTuple):
    """A walk on its way.

    Attributes:
        x: x_k, the last point taken.
        ahead: where it wants to look.
        slope: ∇f + Aᵀλ at x_k.
        lam: λ_k.
        weights: w.
        past: f and c at the last points taken.
        s: the size of the step.
        radius: how far a step may go.
        tries: how often the way was shortened.
    """

    x: Tensor
    ahead: Tensor
    slope: Tensor
    lam: Array
    weights: Array
    past: Array
    s: float
    radius: float
    tries: int = 0

    def helps(self, seen: Seen, limits: Array) -> bool:
        """Line 1: whether a point is taken."""
        here = _merit(np.append(seen.f, seen.c), self.weights, limits)
        top = max(_merit(row, self.weights, limits) for row in self.past)
        allowed = top + RISE * max(1.0, abs(top)) * min(1.0, self.radius)
        return math.isfinite(here) and (self.tries >= TRIES or here <= allowed)

    def back(self, x: Tensor) -> "Walk":
        """Line 1: a part of the way that was too far."""
        d = SHORTER * (x - self.x)
        return self._replace(ahead=self.x + d, radius=_length(d), tries=self.tries + 1)

    def on(self, seen: Seen, limits: Array, share: Array) -> "Walk":
        """Lines 2 to 4: the walk from a point that is taken."""
        dx, change = seen.x - self.x, seen.grad + _combined(self.lam, seen.rows) - self.slope
        along, square = _dot(dx, change), _dot(dx, dx)
        s = square / along if along > 1e-14 * math.sqrt(square * _dot(change, change)) else 2 * self.s
        s = max(s, SHORTER ** (1 + self.tries) * self.s)
        weights, past = self.weights, np.vstack([self.past[1:], np.append(seen.f, seen.c)])
        radius = LONGER * self.radius
        if self.tries >= TRIES:
            past, radius = np.tile(past[-1], (MEMORY, 1)), self.radius / SHORTER ** (TRIES - 1)
        return _stepped(seen, limits, share, s if square else self.s, radius, weights, past)


def begin(seen: Seen, limits: Array, share: Array, s: float) -> Walk:
    """A walk at its start, with a first step size."""
    past = np.tile(np.append(seen.f, seen.c), (MEMORY, 1))
    return _stepped(seen, limits, share, s, math.inf, np.zeros(len(limits)), past)


def _stepped(seen: Seen, limits: Array, share: Array, s: float, radius: float, weights: Array, past: Array) -> Walk:
    radius = min(radius, REACH * max(1.0, _length(seen.x)))
    steep = _length(seen.grad)
    s = min(s, WIDEST * radius / steep) if steep else s
    gram, slopes = (times(seen.rows, x).cpu().numpy() for x in (seen.rows, seen.grad))
    lam = multipliers(gram, slopes, share * (limits - seen.c), s)
    slope = seen.grad + _combined(lam, seen.rows)
    far = s * _length(slope)
    ahead = seen.x - min(1.0, radius / far if far else 1.0) * s * slope
    return Walk(seen.x, ahead, slope, lam, np.maximum(FORGETS * weights, WEIGHT * lam), past, s, radius)


def _merit(row: Array, weights: Array, limits: Array) -> float:
    """M of a point with f and c in a row."""
    return float(row[0] + weights @ np.maximum(row[1:] - limits, 0.0))


def _combined(lam: Array, rows: Tensor) -> Tensor:
    """Aᵀλ."""
    return torch.from_numpy(lam).to(rows) @ rows


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a.double(), b.double()))


def _length(x: Tensor) -> float:
    return math.sqrt(_dot(x, x))
