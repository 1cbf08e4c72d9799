"""Gradients by `backward()` on the live parameters: for DDP and FSDP2 modules, compiled modules, large models."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.constraints import Level
from bome.core.microbatches import MicroBatches
from bome.core.ranks import averages_itself, local, ranks_of, replicas, reshard, without_averaging
from bome.core.trees import Pair, clone
from bome.errors import UnsupportedError
from bome.oracles.autograd import pulls
from bome.oracles.base import Branch, Covectors, Oracle, Which, Wrt
from bome.problem import Batches, Problem
from bome.variable import Variable


class BackwardOracle(Oracle):
    """Works in place: save, look ahead, `backward()`, take `.grad`, restore.

    The user's module is called as it is, wrapped or compiled. Over plain training this needs two more copies of the
    trainable parameters: θ_k during the look-ahead, and the first gradient of g. Under FSDP2 these are copies of the
    shards of a rank.

    Where a module averages its gradients over ranks, values and all other gradients are averaged, too: one message for
    each evaluation that asks for ∇_v, and none for the others.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._theta = _handles(problem.theta)
        self.ranks = ranks_of(problem.modules)
        if problem.constraints and self.ranks is not None:
            raise UnsupportedError("constraints need all of a module: they cannot be used with DDP or FSDP2")
        self._partial = self.ranks is None  # the hooks of DDP and FSDP2 want all gradients
        self._wrapped = tuple(map(_averaged_by_wrappers, (problem.v, problem.theta)))
        shared = [part for module in problem.modules for part in replicas(module) if part.gradient_as_bucket_view]
        self._take = clone if shared else tuple[Tensor, ...]  # else the next evaluation writes over the last gradient

    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        return self._accumulated(which, v, theta, MicroBatches([batch]), wrt)

    def _accumulated(
        self, which: Which, v: Leaves, theta: Leaves, batch: MicroBatches, wrt: Wrt
    ) -> tuple[Tensor, Pair]:
        live_v = self.problem.v.leaves if self.problem.v.module is not None else None
        handles_v = live_v if live_v is not None else tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        wanted = (handles_v if wrt != "theta" else ()) + (self._theta if wrt != "v" else ())
        with (
            _lent(self._theta, theta),
            _lent(live_v, v),
            _without_gradients(handles_v + self._theta),
            self._running_statistics(which),
        ):
            values = []
            for number, (part, weight) in enumerate(batch, start=1):
                with nullcontext() if number == len(batch) else without_averaging(self.problem.modules):
                    values.append(self._add_gradients(which, handles_v, part, weight, wanted))
            reshard(self.problem.modules)
            return values[0] if len(values) == 1 else torch.stack(values).sum(), Pair(
                self._take(self._filled(which, "v", handles_v, [x.grad for x in handles_v])) if wrt != "theta" else (),
                self._take(self._filled(which, "theta", self._theta, [x.grad for x in self._theta]))
                if wrt != "v"
                else (),
            )

    def _add_gradients(self, which: Which, v: Leaves, batch: Any, weight: float, wanted: Leaves) -> Tensor:
        """The weighted loss of one batch; its gradient is added to `.grad`."""
        with torch.enable_grad():
            value = self.problem.live_loss(which, v, self._theta, batch)
            value = value if weight == 1.0 else weight * value
        if value.requires_grad and (wanted or not self._partial):
            self._partial = self._partial and not self._checkpoints(which, value)
            value.backward(inputs=wanted if self._partial else None)  # type: ignore[no-untyped-call]
        return value.detach()

    def _constrained(
        self, level: Level, v: Leaves, theta: Leaves, batches: Batches, covectors: Covectors, wrt: Wrt
    ) -> tuple[Leaves, tuple[Pair, ...]]:
        live_v = self.problem.v.leaves if self.problem.v.module is not None else None
        handles_v = live_v if live_v is not None else tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        wanted = Pair(handles_v if wrt != "theta" else (), self._theta if wrt != "v" else ())
        with _lent(self._theta, theta), _lent(live_v, v), torch.enable_grad():
            return pulls(self.problem.live_constrained(level, handles_v, self._theta, batches), wanted, covectors)

    def _averaged(self, values: Leaves, grad: Pair) -> tuple[Leaves, Pair]:
        if self.ranks is None:
            return values, grad
        if self.problem.v.table is not None:
            grad = Pair(tuple(self.ranks.rows(x) for x in grad.v), grad.theta)
        flags = [tuple(zip(leaves, done, strict=False)) for leaves, done in zip(grad, self._wrapped, strict=True)]
        mean = iter(self.ranks.mean((*(x for side in flags for x, done in side if not done), *values)))
        v, theta = (tuple(x if done else next(mean) for x, done in side) for side in flags)
        return tuple(mean), Pair(v, theta)

    @contextmanager
    def _branch(self, start: Leaves, theta: Leaves) -> Iterator[Branch]:
        saved, home = clone(self._theta), _same(theta, self._theta)
        if not _same(start, self._theta):
            _write(self._theta, start)
        try:
            yield Branch(tuple(x.detach() for x in self._theta), saved if home else theta, saved)
        finally:
            _swap(self._theta, saved)

    def _chosen(self, condition: Tensor, a: Leaves, b: Leaves) -> Leaves:
        for x, y in zip(map(local, a), map(local, b), strict=True):
            x.copy_(torch.where(condition, x, y))
        return a

    @contextmanager
    def _running_statistics(self, which: Which) -> Iterator[None]:
        """Undo what an evaluation does to the buffers, unless it is the first of g in the step."""
        first = which == "g" and not self._settled
        copies = self._borrowed_buffers(which)
        try:
            yield
        finally:
            if copies and not first:
                with torch.no_grad():
                    for name, buffer in self.problem.buffers.items():
                        buffer.copy_(copies[name])


def _averaged_by_wrappers(variable: Variable) -> tuple[bool, ...]:
    """For each leaf, whether its gradient needs no averaging here; rows of single samples are never averaged."""
    if variable.table is not None:
        return (True,) * len(variable.leaves)
    return averages_itself(variable.module, variable.leaves)


def _handles(variable: Variable) -> Leaves:
    """Tensors that collect gradients and share memory with the live ones: parameters themselves, else aliases."""
    if variable.module is not None:
        return variable.leaves
    return tuple(x.detach().requires_grad_() for x in variable.leaves)


@contextmanager
def _without_gradients(leaves: Leaves) -> Iterator[None]:
    """Empty the `.grad` of live tensors for a while, then put back what the user had there."""
    held = [x.grad for x in leaves]
    for x in leaves:
        x.grad = None
    try:
        yield
    finally:
        for x, grad in zip(leaves, held, strict=True):
            x.grad = grad


def _write(targets: Leaves, values: Any) -> None:
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)


def _same(a: Leaves, b: Leaves) -> bool:
    """Whether they are the same memory."""
    return all(local(x).data_ptr() == local(y).data_ptr() for x, y in zip(a, b, strict=True))


def _swap(a: Leaves, b: Leaves) -> None:
    """Exchange values, leaf by leaf."""
    for x, y in zip(a, b, strict=True):
        held = x.detach().clone()
        _write((x,), (y,))
        _write((y,), (held,))


@contextmanager
def _lent(live: Leaves | None, values: Leaves) -> Iterator[None]:
    """Let the live tensors hold other values for a while; nothing to do where they are the same memory."""
    if live is None or _same(live, values):
        yield
        return
    saved = [x.detach().clone() for x in live]
    _write(live, values)
    try:
        yield
    finally:
        _write(live, saved)
