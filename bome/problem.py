"""The bilevel problem: losses and constraints of (v, θ, batch), starting values, and the sets v and θ live in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from bome._checks import check_arguments
from bome._typing import Leaves, Loss
from bome.constraints import Constraint, Constraints, Level
from bome.core.microbatches import MicroBatches
from bome.core.trees import Pair
from bome.errors import ProblemError, UnsupportedError
from bome.per_sample import PerSample
from bome.projections import Rules
from bome.variable import Projections, Variable

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The batches of one outer step. `inner[0]` serves both terms of q̂ and the first inner step."""

    outer: tuple[Any, ...] = (None,)
    inner: tuple[Any, ...] = (None,)


class Located(NamedTuple):
    """A batch together with the places of its samples among the rows of the current step."""

    batch: Any
    places: Tensor


def _parts(batch: Any) -> tuple[Any, ...]:
    """The micro-batches of a batch, or the batch itself."""
    return batch.parts if isinstance(batch, MicroBatches) else (batch,)


def _located(batch: Any, places: list[Tensor]) -> Any:
    """A batch with the places of its samples, of each micro-batch where it has them."""
    parts = [Located(*pair) for pair in zip(_parts(batch), places, strict=True)]
    return batch.with_parts(parts) if isinstance(batch, MicroBatches) else parts[0]


class Problem:
    """min_{v,θ} f(v, θ) subject to H(v, θ) ≤ 0 and θ ∈ argmin { g(v, ·) : h(v, ·) ≤ 0 }.

    Args:
        outer: f, the outer loss `(v, theta, batch) -> scalar`.
        inner: g, the inner loss, of the same signature.
        v: starting value of the outer variable: a tensor, a list or dict of tensors, an `nn.Module` or a `PerSample`;
            None for a problem without one, min f(θ) over the minimisers of g, whose losses get None for v.
        theta: starting value of the inner variable: a tensor, a list or dict of tensors, or an `nn.Module`.
        project_v: projection for v after each step: one for each of its tensors, a dict of them by name, or
            `joint(...)` for all of its tensors together.
        project_theta: likewise for θ; applied in the look-ahead too.
        inner_constraints: h, a function `(v, theta, batch) -> vector`, which must not be positive in the inner problem.
        outer_constraints: H, likewise in the outer problem.
        inner_equalities: a function like h, which must be zero in the inner problem.
        outer_equalities: likewise in the outer problem.

    The starting values are live: a solver changes these very tensors, as an optimiser of `torch.optim` does. A start
    outside of its set is moved to the nearest point of the set before anything else is done.
    """

    def __init__(
        self,
        outer: Loss,
        inner: Loss,
        v: Any = None,
        theta: Any = None,
        project_v: Projections | None = None,
        project_theta: Projections | None = None,
        *,
        inner_constraints: Constraint | None = None,
        outer_constraints: Constraint | None = None,
        inner_equalities: Constraint | None = None,
        outer_equalities: Constraint | None = None,
    ) -> None:
        for name, loss in (("outer", outer), ("inner", inner)):
            check_arguments(name, loss, "scalar")
        if isinstance(theta, PerSample):
            raise ProblemError("theta cannot be a PerSample: only the outer variable has a row per sample")
        self.outer, self.inner = outer, inner
        self.constraints = Constraints(inner_constraints, inner_equalities, outer_constraints, outer_equalities)
        self.v, self.theta = Variable("v", v), Variable("theta", theta)
        self.project_v = self.v.rules(project_v)
        self.project_theta = self.theta.rules(project_theta)
        if self.constraints and self.v.table is not None:
            raise ProblemError("constraints see all of v, but a step sees only the rows of a PerSample: use a tensor")
        _check_together(self.v, self.theta)
        _check_rules(self.v, self.project_v)
        _check_rules(self.theta, self.project_theta)
        modules: dict[str, nn.Module] = {var.role: var.module for var in (self.v, self.theta) if var.module is not None}
        self._host = _Host(modules) if modules else None
        self._ties = _ties(self._host) if self._host is not None else {}

    @property
    def point(self) -> Pair:
        """The current (v, θ) as tensors outside any graph, sharing memory with the live ones."""
        return Pair(tuple(x.detach() for x in self.v.leaves), tuple(x.detach() for x in self.theta.leaves))

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers of the modules (running statistics), by name."""
        return dict(self._host.named_buffers()) if self._host is not None else {}

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The modules among v and θ."""
        return tuple(var.module for var in (self.v, self.theta) if var.module is not None)

    def enter_sets(self) -> None:
        """Move a start that lies outside of its set to the nearest point of the set."""
        with torch.no_grad():
            self.project_v.enter(self.v.leaves)
            self.project_theta.enter(self.theta.leaves)

    def check_unchanged(self) -> None:
        """Refuse variables in which the user has replaced a tensor since the problem was made."""
        self.v.check_unchanged()
        self.theta.check_unchanged()

    def loss(
        self, which: Literal["f", "g"], v: Leaves, theta: Leaves, batch: Any, buffers: dict[str, Tensor]
    ) -> Tensor:
        """f or g at (v, θ), given as tensors; modules see `buffers` in place of their own."""
        if isinstance(batch, MicroBatches):
            each = [weight * self.loss(which, v, theta, part, buffers) for part, weight in batch]
            return torch.stack(each).sum()
        return self.within(which, v, theta, batch, buffers, lambda value: value)

    def within(
        self,
        which: Literal["f", "g"],
        v: Leaves,
        theta: Leaves,
        batch: Any,
        buffers: dict[str, Tensor],
        then: Callable[[Tensor], T],
    ) -> T:
        """What `then` makes of f or g at (v, θ), while modules still hold these tensors.

        Activation checkpointing computes activations again during differentiation, with what the modules hold then.
        """
        loss = self.outer if which == "f" else self.inner
        if isinstance(batch, Located):
            v, batch = tuple(x[batch.places] for x in v), batch.batch

        def call(seen_v: Any, seen_theta: Any) -> T:
            return then(self.checked(which, loss(seen_v, seen_theta, batch)))

        return self._holding(v, theta, buffers, call)

    def constrained(
        self,
        level: Level,
        v: Leaves,
        theta: Leaves,
        batches: Batches,
        buffers: dict[str, Tensor],
        then: Callable[[Leaves], T],
    ) -> T:
        """What `then` makes of the constraints at (v, θ), a vector for each kind; otherwise as `within`.

        Those of the inner problem see the first inner batch, the others the first outer one.
        """

        def call(seen_v: Any, seen_theta: Any) -> T:
            return then(self._parts(level, seen_v, seen_theta, batches))

        return self._holding(v, theta, buffers, call)

    def live_constrained(self, level: Level, v: Leaves, theta: Leaves, batches: Batches) -> Leaves:
        """The constraints with modules called as they are, a vector for each kind."""
        return self._parts(level, self.v.seen(v), self.theta.seen(theta), batches)

    def _parts(self, level: Level, v: Any, theta: Any, batches: Batches) -> Leaves:
        inner, outer = batches.inner[0], batches.outer[0]
        if isinstance(inner, MicroBatches) or isinstance(outer, MicroBatches):
            raise UnsupportedError("constraints see one batch as a whole: give the losses no micro-batches")
        empty = self.theta.leaves[0].detach().new_zeros(0)
        return self.constraints.parts(level, v, theta, inner, outer, empty)

    def _holding(self, v: Leaves, theta: Leaves, buffers: dict[str, Tensor], call: Callable[[Any, Any], T]) -> T:
        """What `call` makes of v and θ as losses see them, while modules hold these tensors and buffers."""
        if self._host is None:
            return call(self.v.seen(v), self.theta.seen(theta))
        tensors = dict(buffers)
        for var, leaves in ((self.v, v), (self.theta, theta)):
            if var.module is not None:
                tensors.update({f"{var.role}.{key}": x for key, x in zip(var.keys, leaves, strict=True)})
        tensors.update({name: tensors[first] for name, first in self._ties.items() if first in tensors})
        arguments = (call, self.v.seen(v), self.theta.seen(theta))
        value: T = functional_call(self._host, tensors, arguments, tie_weights=False)
        for name, buffer in buffers.items():
            if tensors[name] is not buffer:  # the module put another tensor in its place
                buffer.copy_(tensors[name].detach())
        return value

    def live_loss(self, which: Literal["f", "g"], v: Leaves, theta: Leaves, batch: Any) -> Tensor:
        """f or g with modules called as they are; variables that are no modules are given as tensors."""
        loss = self.outer if which == "f" else self.inner
        if isinstance(batch, Located):
            v, batch = tuple(x[batch.places] for x in v), batch.batch
        return self.checked(which, loss(self.v.seen(v), self.theta.seen(theta), batch))

    def localise(self, batches: Batches) -> tuple[Tensor | None, Batches]:
        """For a `PerSample` v: the rows a step touches, and its batches with the places of their samples among them."""
        table = self.v.table
        if table is None:
            return None, batches
        indices = [[table.rows(part) for part in _parts(batch)] for batch in batches.inner]
        rows, places = torch.unique(torch.cat([i for each in indices for i in each]), return_inverse=True)
        left = iter(places.split([len(i) for each in indices for i in each]))
        shares = [[next(left) for _ in each] for each in indices]
        first = torch.cat(shares[0])
        inner = tuple(_located(batch, each) for batch, each in zip(batches.inner, shares, strict=True))
        return rows, Batches(
            inner=inner, outer=tuple(_located(batch, [first] * len(_parts(batch))) for batch in batches.outer)
        )

    @staticmethod
    def checked(which: str, value: Tensor) -> Tensor:
        """The value of a loss, if it is a scalar tensor."""
        if not isinstance(value, Tensor) or value.dim() != 0:
            shape, kind = getattr(value, "shape", ()), type(value).__name__
            got = f"shape {tuple(shape)}: use .mean() or .sum()" if shape else f"{kind}: do not use float() or .item()"
            name = "outer" if which == "f" else "inner"
            raise ProblemError(f"the {name} loss must return a scalar tensor, got {got}")
        if not value.is_floating_point():
            name = "outer" if which == "f" else "inner"
            raise ProblemError(f"the {name} loss must be a real number, got {value.dtype}: it has no gradient")
        return value


def either(loss: Loss, dim: int, data: Any = None) -> Loss:
    """The loss of one run, or the sum over a stack of them: v of one run has `dim` dimensions.

    Args:
        loss: of one run.
        dim: the number of dimensions of v, which is a tensor.
        data: the dimension of the runs in the batch, as `torch.func.vmap` wants to be told.
    """

    def summed(v: Any, theta: Any, batch: Any) -> Tensor:
        if v.dim() == dim:
            return loss(v, theta, batch)
        total: Tensor = vmap(loss, in_dims=(0, 0, data))(v, theta, batch).sum()
        return total

    return summed


class _Host(nn.Module):
    """Holds the user's modules while a loss runs, so that `functional_call` can lend them other parameters."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for role, module in modules.items():
            self.add_module(role, module)

    def forward(self, call: Callable[[Any, Any], T], v: Any, theta: Any) -> T:
        return call(v, theta)


def _ties(module: nn.Module) -> dict[str, str]:
    """For parameters and buffers with several names, the first one by each of the others.

    `functional_call` would find them anew at every call.
    """
    firsts: dict[Tensor, str] = {}
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: first for name, tensor in named if (first := firsts.setdefault(tensor, name)) != name}


def _check_together(v: Variable, theta: Variable) -> None:
    seen: dict[int, str] = {}
    names, leaves = v.names + theta.names, v.leaves + theta.leaves
    for name, leaf in zip(names, leaves, strict=True):
        place = leaf.data_ptr() or id(leaf)  # views and .detach() share memory without being the same object
        if place in seen:
            raise ProblemError(f"{name} is the same tensor as {seen[place]}: a tensor belongs to one variable, once")
        seen[place] = name
        if leaf.device != leaves[0].device:
            raise ProblemError(
                f"{name} is on {leaf.device} but {names[0]} on {leaves[0].device}: move them to one device"
            )


def _check_rules(variable: Variable, rules: Rules) -> None:
    """Try the projections; those of a `PerSample` must treat rows alone, since a step sees only some."""
    if not rules:
        return
    leaves = tuple(x.detach().clone() for x in variable.leaves)
    for name, leaf, projected in zip(variable.names, leaves, rules(leaves), strict=True):
        if not isinstance(projected, Tensor) or projected.shape != leaf.shape or projected.dtype != leaf.dtype:
            raise ProblemError(f"the projection of {name} must return a tensor of its shape and dtype")
        if variable.table is not None and len(leaf) > 1:
            probe = torch.linspace(-1e4, 1e4, leaf[:2].numel(), dtype=leaf.dtype, device=leaf.device).view_as(leaf[:2])
            alone = torch.cat([rules((probe[:1],))[0], rules((probe[1:],))[0]])
            if not torch.equal(rules((probe,))[0], alone):
                raise ProblemError(
                    f"the projection of {name} treats rows together, but a step sees only the rows of its batch: use "
                    "box or nonnegative, or a PerSample with a shape for simplex"
                )
