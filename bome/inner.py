"""Inner maps: how the look-ahead moves θ towards the minimiser of g(v, ·).

`GradientDescent` and `AdamDescent` are pure functions of (leaf, gradient, buffers), so they can be differentiated
through, compiled and batched. `TorchOptim` wraps any optimiser of `torch.optim`, in place; L-BFGS evaluates g as often
as it likes. Buffers start afresh in every outer step, since each look-ahead is an optimisation run of its own.

`bome.Solver` (in `solver`) is an inner map without steps: θ*(v) by any other program.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from bome._checks import check_count, check_decay, check_positive
from bome._typing import Leaves
from bome.errors import ProblemError

Buffers = tuple[Tensor, ...]
"""The buffers of one leaf."""


Look = Callable[[], tuple[Tensor, Leaves]]
"""Evaluates g and ∇_θ g where θ stands now."""


class InnerMap(ABC):
    """How θ comes near to a minimiser of g(v, ·).

    Attributes:
        steps: T.
    """

    steps: int

    @abstractmethod
    def with_steps(self, steps: int) -> "InnerMap":
        """The same map with another T."""


class StepMap(InnerMap):
    """T steps on g(v, ·). `start` makes the buffers, `step_` does one step in place on a working copy of θ."""

    @abstractmethod
    def start(self, theta: Leaves) -> Any:
        """Buffers for a new look-ahead from θ."""

    @abstractmethod
    def step_(self, theta: Leaves, look: Look, buffers: Any) -> Any:
        """One step, written into the tensors of `theta`; looks at g at least once and returns the new buffers."""


def check_inner(inner: InnerMap) -> None:
    """Refuse what is no inner map."""
    if not isinstance(inner, InnerMap):
        raise ProblemError(f"inner must be an inner map such as GradientDescent(lr=0.1), got {inner!r}")


class DifferentiableMap(StepMap):
    """An inner map given by a pure rule for one leaf."""

    @abstractmethod
    def init(self, leaf: Tensor) -> Buffers:
        """Buffers of one leaf before the first step."""

    @abstractmethod
    def update(self, leaf: Tensor, grad: Tensor, buffers: Buffers) -> tuple[Tensor, Buffers]:
        """The leaf and its buffers after one step; arguments are left as they are."""

    def start(self, theta: Leaves) -> tuple[Buffers, ...]:
        """Buffers for a new look-ahead from θ."""
        return tuple(self.init(leaf) for leaf in theta)

    def advance(self, theta: Leaves, grad: Leaves, buffers: tuple[Buffers, ...]) -> tuple[Leaves, tuple[Buffers, ...]]:
        """One step on all leaves, as new tensors."""
        moved = [self.update(x, g, b) for x, g, b in zip(theta, grad, buffers, strict=True)]
        return tuple(x for x, _ in moved), tuple(b for _, b in moved)

    def join(self, theta: Leaves, buffers: tuple[Buffers, ...]) -> Leaves:
        """θ and the buffers of its leaves as one flat state."""
        return theta + tuple(x for each in buffers for x in each)

    def step_state(self, state: Leaves, grad: Leaves) -> Leaves:
        """One step on the flat state (θ, buffers): the map Φ of implicit and unrolling methods."""
        n = len(grad)
        per_leaf = (len(state) - n) // n
        buffers = tuple(state[n + i * per_leaf : n + (i + 1) * per_leaf] for i in range(n))
        return self.join(*self.advance(state[:n], grad, buffers))

    def step_(self, theta: Leaves, look: Look, buffers: tuple[Buffers, ...]) -> tuple[Buffers, ...]:
        """One look, one step."""
        return self.advance_(theta, look()[1], buffers)

    def advance_(self, theta: Leaves, grad: Leaves, buffers: tuple[Buffers, ...]) -> tuple[Buffers, ...]:
        """One step in place, leaf by leaf, so that at most one leaf exists twice."""
        after = []
        for x, g, b in zip(theta, grad, buffers, strict=True):
            moved, new = self.update(x, g, b)
            x.copy_(moved)
            after.append(new)
        return tuple(after)


@dataclass(frozen=True)
class GradientDescent(DifferentiableMap):
    """θ ← θ − α m, m ← μ m + ∇g, with m = ∇g where μ = 0.

    Attributes:
        lr: α, the inner step size.
        steps: T, the number of steps of each look-ahead.
        momentum: μ.
    """

    lr: float
    steps: int = 10
    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_count("inner_steps (T)", self.steps)
        check_positive("inner_lr (α)", self.lr)
        check_decay("inner momentum", self.momentum)

    def with_steps(self, steps: int) -> "GradientDescent":
        """The same map with another T."""
        return replace(self, steps=steps)

    def init(self, leaf: Tensor) -> Buffers:
        """One buffer where there is momentum."""
        return (torch.zeros_like(leaf),) if self.momentum else ()

    def update(self, leaf: Tensor, grad: Tensor, buffers: Buffers) -> tuple[Tensor, Buffers]:
        """One step."""
        if not self.momentum:
            return torch.sub(leaf, grad, alpha=self.lr), ()
        m = self.momentum * buffers[0] + grad
        return torch.sub(leaf, m, alpha=self.lr), (m,)

    def advance_(self, theta: Leaves, grad: Leaves, buffers: tuple[Buffers, ...]) -> tuple[Buffers, ...]:
        """One step in place; without momentum no leaf exists twice."""
        if self.momentum:
            return super().advance_(theta, grad, buffers)
        for x, g in zip(theta, grad, strict=True):
            x.sub_(g, alpha=self.lr)
        return buffers


@dataclass(frozen=True)
class AdamDescent(DifferentiableMap):
    """Adam (Kingma and Ba, 2015) as a pure map; ε inside the root, so that its derivative exists at zero gradients.

    The moments are held in float32 at least: in float16 the square of a gradient of 1e-4 is 0, and so is ε².

    Attributes:
        lr: α, the inner step size.
        steps: T, the number of steps of each look-ahead.
        betas: decay rates of the two moments.
        eps: ε.
    """

    lr: float
    steps: int = 10
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_count("inner_steps (T)", self.steps)
        check_positive("inner_lr (α)", self.lr)
        for beta in self.betas:
            check_decay("each of betas", beta)
        check_positive("eps", self.eps)

    def with_steps(self, steps: int) -> "AdamDescent":
        """The same map with another T."""
        return replace(self, steps=steps)

    def init(self, leaf: Tensor) -> Buffers:
        """First moment, second moment, number of steps done."""
        moment = torch.zeros_like(leaf, dtype=torch.promote_types(leaf.dtype, torch.float32))
        return moment, moment, leaf.new_zeros((), dtype=torch.float64)

    def update(self, leaf: Tensor, grad: Tensor, buffers: Buffers) -> tuple[Tensor, Buffers]:
        """One step with bias correction."""
        (beta1, beta2), (m, s, t) = self.betas, buffers
        t, grad = t + 1, grad.to(m.dtype)
        m = beta1 * m + (1 - beta1) * grad
        s = beta2 * s + (1 - beta2) * grad * grad
        size = (s / (1 - beta2**t) + self.eps**2).sqrt()
        moved = leaf - self.lr * (m / (1 - beta1**t)) / size
        return moved.to(leaf.dtype), (m, s, t)


@dataclass(frozen=True)
class TorchOptim(StepMap):
    """T steps of any `torch.optim` optimiser, made anew by `factory(tensors)` for every look-ahead.

    Every evaluation of g that an optimiser asks for is counted: with L-BFGS up to `max_eval` (25) in each step.

    Example:
        `TorchOptim(lambda p: torch.optim.RMSprop(p, lr=1e-3), steps=5)`
        `TorchOptim(lambda p: torch.optim.LBFGS(p, line_search_fn="strong_wolfe"), steps=1)`
    """

    factory: Callable[[list[Tensor]], Optimizer]
    steps: int = 10

    def __post_init__(self) -> None:
        check_count("inner_steps (T)", self.steps)
        if not callable(self.factory):
            raise ProblemError(
                "TorchOptim needs a function that makes an optimiser, such as "
                f"lambda p: torch.optim.RMSprop(p, lr=1e-3), got {type(self.factory).__name__}"
            )

    def with_steps(self, steps: int) -> "TorchOptim":
        """The same map with another T."""
        return replace(self, steps=steps)

    def start(self, theta: Leaves) -> Optimizer:
        """A new optimiser over the tensors of the look-ahead."""
        return self.factory(list(theta))

    def step_(self, theta: Leaves, look: Look, buffers: Optimizer) -> Optimizer:
        """One `optimizer.step(closure)`."""

        def closure() -> Tensor:
            value, grad = look()
            for x, g in zip(theta, grad, strict=True):
                x.grad = g
            return value

        buffers.step(closure)  # type: ignore[arg-type]  # L-BFGS wants the tensor, torch declares a number
        for x in theta:
            x.grad = None
        return buffers


def needs_closure(inner: InnerMap, theta: Leaves) -> bool:
    """Whether it is an optimiser that evaluates g several times in a step and compares the values."""
    if not isinstance(inner, TorchOptim):
        return False
    closure = inspect.signature(inner.start(theta).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
