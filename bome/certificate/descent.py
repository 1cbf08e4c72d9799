"""A descent that needs no step size: projected gradient steps of Barzilai and Borwein with a line search."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bome._typing import Leaves
from bome.core.trees import axpy, dot, sub

MEMORY = 5
"""Values looked back at: a step may rise a little, as long as it stays below the highest of them."""


class Place(NamedTuple):
    """A point, the value there, and the gradient."""

    x: Leaves
    value: float
    grad: Leaves


class Reached(NamedTuple):
    """Where a descent has come to.

    Attributes:
        place: the lowest point.
        settled: whether a further step would gain less than was asked for.
    """

    place: Place
    settled: bool


def descend(
    look: Callable[[Leaves], Place],
    start: Leaves,
    project: Callable[[Leaves], Leaves],
    size: float,
    gain: float,
    steps: int,
) -> Reached:
    """The lowest point that a descent of at most `steps` looks finds.

    Args:
        look: what is at a point.
        start: in the set.
        project: onto the set.
        size: the length of the first step, as far as the set allows it.
        gain: a step that promises less is the last one.
        steps: the most points looked at.
    """
    here = best = look(start)
    norm = math.sqrt(float(dot(here.grad, here.grad)))
    s, past = size / norm if norm > 0 else 1.0, [here.value]
    t, d, slope = 1.0, *_direction(here, project, s)
    moved = math.sqrt(float(dot(d, d)))
    if 0 < moved < 0.5 * size:  # most of the gradient points out of the set
        s *= size / moved
        d, slope = _direction(here, project, s)
    for _ in range(steps):
        if not -slope > gain:  # also where the slope is NaN
            return Reached(best, settled=math.isfinite(best.value))
        there = look(axpy(t, d, here.x) if t < 1 else project(axpy(1.0, d, here.x)))
        if not there.value <= max(past[-MEMORY:]) + 1e-4 * t * slope:
            rise = there.value - here.value - t * slope
            best_t = -0.5 * t * t * slope / rise if math.isfinite(rise) and rise > 0 else 0.0
            t = min(max(best_t, 0.1 * t), 0.5 * t)
            continue
        dx, dg = sub(there.x, here.x), sub(there.grad, here.grad)
        bend, square = float(dot(dx, dg)), float(dot(dx, dx))
        s = square / bend if bend > 1e-14 * math.sqrt(square * float(dot(dg, dg))) else 10 * s
        here, past = there, [*past, there.value]
        best = min(best, here, key=lambda place: place.value)
        t, d, slope = 1.0, *_direction(here, project, s)
    return Reached(best, settled=False)


def shortest(grads: Sequence[Leaves]) -> Leaves:
    """A short mean of some gradients, taken in one after the other: near a kink its negative leads down."""
    mean = grads[0]
    for grad in grads[1:]:
        way = sub(grad, mean)
        square = float(dot(way, way))
        share = min(max(-float(dot(mean, way)) / square, 0.0), 1.0) if square > 0 else 0.0
        mean = axpy(share, way, mean)
    return mean


def falls_on(near: float, far: float, further: float, least: float) -> bool:
    """Whether a loss falls without end along a line, as far as its values at 1, 10 and 100 times a distance tell.

    A fall by more than `least`, and then by at least as much again, is one that does not slow down.
    """
    fall, again = near - far, far - further
    return fall > least and not again < 0.9 * fall


def _direction(place: Place, project: Callable[[Leaves], Leaves], s: float) -> tuple[Leaves, float]:
    """d = P(x − s ∇) − x, and ⟨∇, d⟩."""
    d = sub(project(axpy(-s, place.grad, place.x)), place.x)
    return d, float(dot(place.grad, d))
