"""What every oracle does: evaluate losses with their gradients, look ahead along g, count.

Within one outer step g is one fixed function: all its evaluations see the random numbers (dropout masks) of the first
one, and running statistics (BatchNorm) change once, by that first evaluation. So q̂ compares like with like.
"""

import enum
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.errors import NonFiniteError, UnsupportedError
from bome.inner import InnerMap
from bome.problem import Problem
from bome.trees import Pair

Which = Literal["f", "g"]
Wrt = Literal["both", "v", "theta"]


class Needs(enum.Flag):
    """What a method asks of its oracle."""

    FIRST_ORDER = enum.auto()
    HVP = enum.auto()
    UNROLL = enum.auto()


class Eval(NamedTuple):
    """A loss at a point: its value and gradient; the part of the gradient that was not asked for is empty.

    Attributes:
        noise: state of the random generators before the evaluation, if it drew from them.
    """

    value: Tensor
    grad: Pair
    noise: "tuple[Tensor, ...] | None" = None


class Ahead(NamedTuple):
    """The end of a look-ahead.

    Attributes:
        value: g(v, θ^(T)).
        grad: its gradient with respect to v.
        half: g(v, θ^(⌊T/2⌋)), which tells whether T is enough.
    """

    value: Tensor
    grad: Pair
    half: Tensor


class Oracle(ABC):
    """The only code that differentiates.

    Attributes:
        provides: what methods may ask for.
        counts: evaluations so far, by kind: "f" and "g" (value and gradient), and second-order products.
        watching: whether each evaluation is tested for NaN and infinity (used to find the place of a failure).
    """

    provides = Needs.FIRST_ORDER

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.counts: Counter[str] = Counter()
        self.watching = False
        self._has_buffers = bool(problem.buffers)
        self._settled = False

    def begin(self) -> None:
        """Start a new outer step: its first evaluation of g updates the running statistics."""
        self._settled = False

    def inner(self, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt = "both") -> Eval:
        """g(v, θ) and its gradient."""
        before = _generators()
        value, grad = self._counted("g", v, theta, batch, wrt, "at (v, θ)")
        return Eval(value, grad, before if _moved(before) else None)

    def outer(self, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt = "both") -> Eval:
        """f(v, θ) and its gradient."""
        return Eval(*self._counted("f", v, theta, batch, wrt, "at (v, θ)"))

    def look_ahead(self, v: Leaves, theta: Leaves, g: Eval, inner: InnerMap, batches: Sequence[Any]) -> Ahead:
        """θ^(T) by T inner steps from θ; g and ∇_v g there, with θ^(T) held constant.

        Args:
            v: the outer variable, fixed.
            theta: θ, the start; left as it is.
            g: g at (v, θ) on `batches[0]`, whose gradient is that of the first inner step.
            inner: the inner map.
            batches: the batch of each inner step; the last one serves all further steps. The end is evaluated on the
                first, as `g` was.
        """
        after = _generators() if g.noise is not None else None
        with self._branch(theta) as theta_t:
            grad, half = g.grad.theta, g.value
            buffers = inner.start(theta_t)
            for t in range(inner.steps):
                if t > 0:
                    _replay(g.noise)
                    batch = batches[min(t, len(batches) - 1)]
                    value, pair = self._counted("g", v, theta_t, batch, "theta", f"at inner step {t}")
                    grad, half = pair.theta, value if t == inner.steps // 2 else half
                theta_t, buffers = self._advance(inner, theta_t, grad, buffers)
            del grad, buffers
            _replay(g.noise)
            value, pair = self._counted("g", v, theta_t, batches[0], "v", "at θ^(T)")
            _replay(after)
        return Ahead(value, pair, half)

    def descend(self, v: Leaves, theta: Leaves, inner: InnerMap, batches: Sequence[Any]) -> Leaves:
        """θ after T inner steps on g(v, ·); `theta` is left as it is. T evaluations of g."""
        with self._branch(theta) as theta_t:
            buffers = inner.start(theta_t)
            for t in range(inner.steps):
                batch = batches[min(t, len(batches) - 1)]
                _, pair = self._counted("g", v, theta_t, batch, "theta", f"at inner step {t}")
                theta_t, buffers = self._advance(inner, theta_t, pair.theta, buffers)
            return tuple(x.detach().clone() for x in theta_t)

    @abstractmethod
    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        """Value and gradient, detached."""

    @contextmanager
    def _branch(self, theta: Leaves) -> Iterator[Leaves]:
        """A working copy of θ for a look-ahead."""
        yield tuple(x.clone() for x in theta)

    def _advance(self, inner: InnerMap, theta: Leaves, grad: Leaves, buffers: Any) -> tuple[Leaves, Any]:
        """One inner step on the working copy, projected."""
        buffers = inner.advance_(theta, grad, buffers)
        for x, rule in zip(theta, self.problem.project_theta, strict=True):
            if rule is not None:
                x.copy_(rule(x))
        return theta, buffers

    def _borrowed_buffers(self, which: Which) -> dict[str, Tensor]:
        """The buffers an evaluation may write to: the live ones for the first of g in a step, copies for all others."""
        if not self._has_buffers:
            return {}
        live = self.problem.buffers
        if which == "g" and not self._settled:
            self._settled = True
            return live
        return {name: buffer.clone() for name, buffer in live.items()}

    def _counted(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt, place: str) -> tuple[Tensor, Pair]:
        if not torch.compiler.is_compiling():
            self.counts[which] += 1
        value, grad = self._evaluate(which, v, theta, batch, wrt)
        if self.watching:
            self._inspect(f"{which} {place}", value, grad)
        return value, grad

    def _inspect(self, label: str, value: Tensor, grad: Pair) -> None:
        hint = "try smaller step sizes, or look at the batch"
        if not torch.isfinite(value):
            raise NonFiniteError(-1, label, hint)
        for variable, leaves in ((self.problem.v, grad.v), (self.problem.theta, grad.theta)):
            for name, leaf in zip(variable.names, leaves, strict=False):
                if not torch.isfinite(leaf).all():
                    raise NonFiniteError(-1, f"the gradient of {label} in {name}", hint)


def check(oracle: Oracle, method: str, needs: Needs) -> None:
    """Refuse a method that needs more than the oracle gives."""
    missing = needs & ~oracle.provides
    if missing:
        raise UnsupportedError(
            f"{method} needs {missing.name}, which {type(oracle).__name__} cannot give: "
            "use AutogradOracle, or a first-order method such as bome"
        )


def _generators() -> tuple[Tensor, ...]:
    if torch.compiler.is_compiling():
        return ()
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states.append(torch.cuda.get_rng_state())
    return tuple(states)


def _moved(before: tuple[Tensor, ...]) -> bool:
    if torch.compiler.is_compiling():
        return False
    return any(not torch.equal(a, b) for a, b in zip(before, _generators(), strict=True))


def _replay(states: tuple[Tensor, ...] | None) -> None:
    if states:
        torch.set_rng_state(states[0])
        for state in states[1:]:
            torch.cuda.set_rng_state(state)
