"""What every oracle does: evaluate losses with their gradients, look ahead along g, count.

Within one outer step g is one fixed function: all its evaluations see the random numbers (dropout masks) of the first
one, and running statistics (BatchNorm) change once, by that first evaluation. So q̂ compares like with like.

After a step the random generators of torch stand where one evaluation of g and one of f leave them, whatever T is; f
draws numbers of its own, after those of g. Generators of other libraries are not replayed: a loss that draws from them
is another function at each call.
"""

import enum
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.constraints import Level, Sizes
from bome.core.microbatches import MicroBatches
from bome.core.ranks import Ranks, local
from bome.core.trees import Pair, axpy, scale, where
from bome.errors import NonFiniteError, UnsupportedError
from bome.inner import InnerMap, Look, StepMap
from bome.oracles.traces import generators, moved, replay, snapshot
from bome.oracles.values import holds_reentrant, sound
from bome.problem import Batches, Problem
from bome.solver import Solver, check_allowed
from bome.variable import Role

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


class ConstraintEval(NamedTuple):
    """The constraints at a point.

    Attributes:
        values: their values in one vector, in the order of `sizes`.
        sizes: how many there are of each kind.
        rows: those rows of the Jacobian that were asked for; the part that was not asked for is empty.
    """

    values: Tensor
    sizes: Sizes
    rows: tuple[Pair, ...] = ()


Covectors = Callable[[Tensor], Sequence[Tensor]]
"""From the values c to the w of each product wᵀ∇c."""


class Ahead(NamedTuple):
    """The end of a look-ahead.

    Attributes:
        value: g(v, θ^(T)); NaN if NaN or infinity appeared on the way there, even if g is finite at the end.
        grad: its gradient with respect to v.
        half: g(v, θ^(⌊T/2⌋)), which tells whether T is enough.
        end: θ^(T) itself, where another start was given.
    """

    value: Tensor
    grad: Pair
    half: Tensor
    end: Leaves = ()


class Branch(NamedTuple):
    """The place of a look-ahead.

    Attributes:
        at: a working copy of its start.
        theta: θ as it was, wherever it had to make room for the working copy.
        after: what holds the end when it is over; empty if the working copy does.
    """

    at: Leaves
    theta: Leaves
    after: Leaves = ()


class Oracle(ABC):
    """The only code that differentiates.

    Attributes:
        provides: what methods may ask for.
        counts: evaluations so far, by kind: "f" and "g" (value and gradient), second-order products, "rows" of the
            Jacobian of the constraints (or one product with all of them), and their "constraints" values alone;
            "solves" are calls of a `Solver`, whose own evaluations of g nobody sees.
        watching: whether each evaluation is tested for NaN and infinity (used to find the place of a failure).
        links: of the gradients asked for so far, by loss and variable, whether any flowed; empty if it cannot be told.
        ranks: the ranks whose mean loss is minimised; None if this process works alone. Values and gradients are those
            of the mean, except the gradient in the rows of a `PerSample`, which is sharded.
    """

    provides = Needs.FIRST_ORDER
    ranks: Ranks | None = None

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.counts: Counter[str] = Counter()
        self.watching = False
        self.links: dict[tuple[Which, Role], bool] = {}
        self._has_buffers = bool(problem.buffers)
        self._settled = False
        self._reentrant: dict[Which, bool] = {}

    def begin(self) -> None:
        """Start a new outer step: its first evaluation of g updates the running statistics."""
        self._settled = False

    def inner(self, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt = "both", like: Eval | None = None) -> Eval:
        """g(v, θ) and its gradient; with the random numbers of an earlier evaluation, to be compared with it."""
        before = generators()
        replay(like.noise if like is not None else None)
        value, grad = self._counted("g", v, theta, batch, wrt)
        (value,), grad = self._agreed("g at (v, θ)", (value,), grad)
        if like is None:
            return Eval(value, grad, before if moved(before) else None)
        replay(before)
        return Eval(value, grad, like.noise)

    def outer(self, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt = "both") -> Eval:
        """f(v, θ) and its gradient."""
        value, grad = self._counted("f", v, theta, batch, wrt)
        (value,), grad = self._agreed("f at (v, θ)", (value,), grad)
        return Eval(value, grad)

    def constraints(
        self,
        v: Leaves,
        theta: Leaves,
        batches: Batches,
        rows: Sequence[int] | None = None,
        level: Level = "both",
        wrt: Wrt = "both",
        beside: "Eval | ConstraintEval | None" = None,
    ) -> ConstraintEval:
        """The constraints at (v, θ), with rows of their Jacobian.

        Each row counts one; values alone count one, and nothing beside a gradient or a row at the same point.

        Args:
            v: the outer variable.
            theta: the inner variable.
            batches: the first inner one is for inner constraints, the first outer one for the others.
            rows: the numbers of those wanted; by default all of them.
            level: "inner" for those of the inner problem only.
            wrt: with respect to what.
            beside: an evaluation at this very point, beside which the values are free.
        """

        def units(values: Tensor) -> Sequence[Tensor]:
            numbers = range(len(values)) if rows is None else rows
            return [torch.eye(len(values), dtype=values.dtype, device=values.device)[i] for i in numbers]

        values, sizes, found = self._pulled(level, v, theta, batches, units, wrt)
        self.counts["constraints"] += not found and beside is None and len(values) > 0
        return ConstraintEval(values, sizes, found)

    def pull_constraints(
        self,
        v: Leaves,
        theta: Leaves,
        batches: Batches,
        weights: Callable[[Tensor], Tensor],
        level: Level = "both",
        wrt: Wrt = "both",
    ) -> Eval:
        """The values c of the constraints at (v, θ), and wᵀ∇c with the weights w(c); counts one row."""
        values, _, (grad,) = self._pulled(level, v, theta, batches, lambda c: [weights(c)], wrt)
        return Eval(values, grad)

    def look_ahead(
        self, v: Leaves, theta: Leaves, g: Eval, inner: InnerMap, batches: Sequence[Any], z: Leaves = ()
    ) -> Ahead:
        """θ^(T) by T inner steps from θ; g and ∇_v g there, with θ^(T) held constant.

        Args:
            v: the outer variable, fixed.
            theta: θ, the start; left as it is.
            g: g at (v, θ) on `batches[0]`, whose gradient is that of the first inner step.
            inner: the inner map; of a `Solver` θ^(T) is what it returns, and `half` is the value at the end.
            batches: the batch of each inner step; the last one serves all further steps. The end is evaluated on the
                first, as `g` was.
            z: another start, taken where g is lower there; it costs one evaluation, and θ^(T) is kept.
        """
        random = generators() if g.noise is not None else None
        with self._branch(z or theta, theta) as branch:
            start = self._lower(v, branch, g, batches[0]) if z else (branch.at, g)
            at, path = self._walk(v, start[0], inner, batches, start[1])
            replay(g.noise)
            value, pair = self._counted("g", v, at, batches[0], "v")
            replay(random)
            half = sound(path[inner.steps // 2] if path else value, path, at)
            (value, half), pair = self._agreed("g at θ^(T)", (value, half), pair)
        return Ahead(value + 0 * half, pair, half, (branch.after or at) if z else ())

    def descend(self, v: Leaves, theta: Leaves, inner: InnerMap, batches: Sequence[Any]) -> Leaves:
        """θ after T inner steps on g(v, ·); `theta` is left as it is. T evaluations of g, or one solve."""
        with self._branch(theta, theta) as branch:
            end, _ = self._walk(v, branch.at, inner, batches, None)
        return branch.after or end

    def _lower(self, v: Leaves, branch: Branch, g: Eval, batch: Any) -> tuple[Leaves, Eval]:
        """The working copy if g is lower there, else θ, where `g` is known; and g with ∇_θ g at the one taken."""
        z = self.inner(v, branch.at, batch, "theta", like=g)
        lower = z.value < g.value
        first = Pair((), self._chosen(lower, z.grad.theta, g.grad.theta))
        return self._chosen(lower, branch.at, branch.theta), Eval(torch.where(lower, z.value, g.value), first, g.noise)

    def _walk(
        self, v: Leaves, theta: Leaves, inner: InnerMap, batches: Sequence[Any], g: Eval | None
    ) -> tuple[Leaves, list[Tensor]]:
        """T inner steps on a working copy of θ, the first with the gradient of `g` if given; and g before each."""
        if isinstance(inner, Solver):
            self.counts["solves"] += 1
            for x, solved in zip(theta, inner.solve(self.problem, v, theta, batches[0]), strict=True):
                x.copy_(solved)
            return theta, []
        assert isinstance(inner, StepMap)  # noqa: S101 - there is no third kind
        buffers, path = inner.start(theta), list[Tensor]()
        for t in range(inner.steps):
            look = partial(self._looked, path, t, g, v, theta, batches[min(t, len(batches) - 1)])
            theta, buffers = self._advance(inner, theta, look, buffers)
            del path[t + 1 :]  # the first look of a step is at its start
        return theta, path

    def _looked(
        self, path: list[Tensor], t: int, g: Eval | None, v: Leaves, theta: Leaves, batch: Any
    ) -> tuple[Tensor, Leaves]:
        """g and ∇_θ g where θ stands in inner step t, noted in the path; of the very first look both are known."""
        if g is not None and not path:
            value, grad = g.value, g.grad.theta
        else:
            replay(g.noise if g is not None else None)
            value, pair = self._counted("g", v, theta, batch, "theta")
            known = (value,) if self.watching else ()  # on the way values are of no use to other ranks
            _, (_, grad) = self._agreed(f"g at inner step {t}", known, pair)
        path.append(value)
        return value, grad

    @abstractmethod
    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        """Value and gradient, detached."""

    def _pulled(
        self, level: Level, v: Leaves, theta: Leaves, batches: Batches, covectors: Covectors, wrt: Wrt
    ) -> tuple[Tensor, Sizes, tuple[Pair, ...]]:
        """The values c, how many there are of each kind, and wᵀ∇c for each covector w; it leaves no trace."""
        restore = snapshot(self.problem)
        try:
            parts, found = self._constrained(level, v, theta, batches, covectors, wrt)
        finally:
            restore()
        if not torch.compiler.is_compiling():
            self.counts["rows"] += len(found)
        values = torch.cat(parts)
        if self.watching:
            for grad in found or (Pair((), ()),):
                self._inspect("the constraints at (v, θ)", values.sum(), grad)
        return values, Sizes(*map(len, parts)), found

    def _constrained(
        self, level: Level, v: Leaves, theta: Leaves, batches: Batches, covectors: Covectors, wrt: Wrt
    ) -> tuple[Leaves, tuple[Pair, ...]]:
        """The values of each kind of constraint, detached, and wᵀ∇c for each covector."""
        raise UnsupportedError(f"{type(self).__name__} cannot evaluate constraints: use AutogradOracle")

    def check_inner(self, inner: InnerMap) -> None:
        """Refuse an inner map that cannot solve this problem here."""
        check_allowed(inner, self.problem, alone=self.ranks is None)

    def _filled(self, which: Which, role: Role, leaves: Leaves, grads: Sequence[Tensor | None]) -> Leaves:
        """The gradients, with zeros for leaves that the loss does not depend on; and a note in `links`."""
        self.links[which, role] = self.links.get((which, role), False) or any(g is not None for g in grads)
        return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))

    @contextmanager
    def _branch(self, start: Leaves, theta: Leaves) -> Iterator[Branch]:
        """A working copy of the start of a look-ahead."""
        yield Branch(tuple(x.clone() for x in start), theta)

    def _chosen(self, condition: Tensor, a: Leaves, b: Leaves) -> Leaves:
        """a where a condition holds, else b; it may be written to a."""
        return where(condition, a, b)

    def _advance(self, inner: StepMap, theta: Leaves, look: Look, buffers: Any) -> tuple[Leaves, Any]:
        """One inner step on the working copy, projected."""
        buffers = inner.step_(theta, look, buffers)
        self.problem.project_theta.write(theta)
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

    def _counted(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        """Value and gradient on this rank; what DDP and FSDP2 average is averaged already."""
        if not torch.compiler.is_compiling():
            self.counts[which] += 1
            if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
                torch.clear_autocast_cache()  # it may hold earlier values of θ, which is changed in place
        if isinstance(batch, MicroBatches):
            return self._accumulated(which, v, theta, batch, wrt)
        return self._evaluate(which, v, theta, batch, wrt)

    def _accumulated(
        self, which: Which, v: Leaves, theta: Leaves, batch: MicroBatches, wrt: Wrt
    ) -> tuple[Tensor, Pair]:
        """The mean over micro-batches, each evaluated alone; all of them see running statistics as one evaluation."""
        first = which == "g" and not self._settled
        total: tuple[Tensor, Pair] | None = None
        for part, weight in batch:
            if first:
                self._settled = False
            value, grad = self._evaluate(which, v, theta, part, wrt)
            if total is None:
                total = weight * value, Pair(scale(weight, grad.v), scale(weight, grad.theta))
            else:
                value, before = total[0] + weight * value, total[1]
                total = value, Pair(axpy(weight, grad.v, before.v), axpy(weight, grad.theta, before.theta))
        assert total is not None  # noqa: S101 - there is at least one part
        return total

    def _checkpoints(self, which: Which, value: Tensor) -> bool:
        """Whether a loss uses reentrant activation checkpointing, found at its first evaluation.

        Only a whole `backward()` differentiates through it. Asked for single gradients torch silently gives none to
        the parameters inside.
        """
        if which not in self._reentrant:
            self._reentrant[which] = holds_reentrant(value)
        return self._reentrant[which]

    def _agreed(self, label: str, values: Leaves, grad: Pair) -> tuple[Leaves, Pair]:
        """Values and gradient of the mean over the ranks; inspected if the oracle is watching."""
        values, grad = self._averaged(values, grad)
        if self.watching:
            self._inspect(label, values[0], grad)
        return values, grad

    def _averaged(self, values: Leaves, grad: Pair) -> tuple[Leaves, Pair]:
        """The mean over the ranks of what DDP and FSDP2 do not average; by default there is one rank."""
        return values, grad

    def _inspect(self, label: str, value: Tensor, grad: Pair) -> None:
        bound = "does it have a lower bound? let v or θ live in a set, or look at the batch"
        hint = bound if value == -torch.inf else "try smaller step sizes, or look at the batch"
        if not torch.isfinite(value):
            raise NonFiniteError(-1, label, hint)
        for variable, leaves in ((self.problem.v, grad.v), (self.problem.theta, grad.theta)):
            for name, leaf in zip(variable.names, leaves, strict=False):
                if not self.everywhere(bool(torch.isfinite(local(leaf)).all())):
                    raise NonFiniteError(-1, f"the gradient of {label} in {name}", hint)

    def everywhere(self, holds: bool) -> bool:
        """Whether something holds on every rank."""
        return holds if self.ranks is None else self.ranks.all_agree(holds)


def check(oracle: Oracle, method: str, needs: Needs) -> None:
    """Refuse a method that needs more than the oracle gives."""
    missing = needs & ~oracle.provides
    if missing:
        raise UnsupportedError(
            f"{method} needs {missing.name}, which {type(oracle).__name__} cannot give: "
            "use AutogradOracle, or a first-order method such as bome"
        )
