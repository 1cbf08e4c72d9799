"""The bilevel problem: two losses of (v, θ, batch), their starting values, and the sets v and θ live in."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from bome._typing import Leaves, Loss, Projection
from bome.core.microbatches import MicroBatches
from bome.core.ranks import local
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.per_sample import PerSample

T = TypeVar("T")
Role = Literal["v", "theta"]
Projections = Projection | Mapping[str, Projection]
"""One projection for every tensor, or one for each name of a dict (names without one are free)."""


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


class Variable:
    """One of the two variables: its live tensors, their names, and their form as the losses see it.

    Attributes:
        role: "v" or "theta".
        value: the object the user gave.
        leaves: the live tensors (of a module: its trainable parameters).
        names: a name for each of them, for messages.
        module: the module, where the variable is one.
        table: the `PerSample` it is, if it is one.
    """

    def __init__(self, role: Role, value: Any) -> None:
        self.role = role
        self.value = value
        self.module = value if isinstance(value, nn.Module) else None
        self.table = value if isinstance(value, PerSample) else None
        self._form = value.values if isinstance(value, PerSample) else value
        if self.module is not None:
            named: list[tuple[str, Tensor]] = [(n, p) for n, p in self.module.named_parameters() if p.requires_grad]
            self.keys = tuple(n for n, _ in named)
            self.names = tuple(f"{role}[{n!r}]" for n in self.keys)
            self.leaves: Leaves = tuple(p for _, p in named)
        else:
            named = list(_flatten(self._form, role))
            self.keys = tuple(value) if isinstance(value, Mapping) else ()
            self.names = tuple(n for n, _ in named)
            self.leaves = tuple(t for _, t in named)
        if not self.leaves:
            frozen = self.module is not None and any(True for _ in self.module.parameters())
            raise ProblemError(
                f"{role} has no tensor to optimise"
                + (": all parameters of the module are frozen (requires_grad=False)" if frozen else "")
            )
        for name, leaf in zip(self.names, self.leaves, strict=True):
            _check_leaf(name, leaf)

    def seen(self, leaves: Leaves) -> Any:
        """What a loss sees: the tensors in the user's own form (tensor, list, dict), or the module."""
        return self.module if self.module is not None else _unflatten(self._form, iter(leaves))

    def rules(self, projections: Projections | None) -> tuple[Projection | None, ...]:
        """A projection, or none, for each leaf."""
        if projections is None or callable(projections):
            return (projections,) * len(self.leaves)
        if not isinstance(projections, Mapping) or not all(callable(rule) for rule in projections.values()):
            raise ProblemError(f"project_{self.role} must be a projection such as box(0, 1), or a dict of them by name")
        unknown = sorted(set(projections) - set(self.keys))
        if unknown or len(self.keys) != len(self.leaves):
            raise ProblemError(f"project_{self.role} names {unknown or 'entries'}, but {self.role} has {self.names}")
        return tuple(projections.get(key) for key in self.keys)


class Problem:
    """min_{v,θ} f(v, θ) subject to θ ∈ argmin g(v, ·).

    Args:
        outer: f, the outer loss `(v, theta, batch) -> scalar`.
        inner: g, the inner loss, of the same signature.
        v: starting value of the outer variable: a tensor, a list or dict of tensors, an `nn.Module` or a `PerSample`.
        theta: starting value of the inner variable: a tensor, a list or dict of tensors, or an `nn.Module`.
        project_v: projection for v after each step: one for all of its tensors, or a dict of them by name.
        project_theta: likewise for θ; applied in the look-ahead too.

    The starting values are live: a solver changes these very tensors, as an optimiser of `torch.optim` does.
    """

    def __init__(
        self,
        outer: Loss,
        inner: Loss,
        v: Any,
        theta: Any,
        project_v: Projections | None = None,
        project_theta: Projections | None = None,
    ) -> None:
        for name, loss in (("outer", outer), ("inner", inner)):
            if not callable(loss):
                raise ProblemError(f"{name} must be a function (v, theta, batch) -> scalar, got {type(loss).__name__}")
        if isinstance(theta, PerSample):
            raise ProblemError("theta cannot be a PerSample: only the outer variable has a row per sample")
        self.outer, self.inner = outer, inner
        self.v, self.theta = Variable("v", v), Variable("theta", theta)
        self.project_v = self.v.rules(project_v)
        self.project_theta = self.theta.rules(project_theta)
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

        def call(*arguments: Any) -> T:
            return then(self.checked(which, loss(*arguments)))

        loss = self.outer if which == "f" else self.inner
        if isinstance(batch, Located):
            v, batch = tuple(x[batch.places] for x in v), batch.batch
        if self._host is None:
            value = call(self.v.seen(v), self.theta.seen(theta), batch)
        else:
            tensors = dict(buffers)
            for var, leaves in ((self.v, v), (self.theta, theta)):
                if var.module is not None:
                    tensors.update({f"{var.role}.{key}": x for key, x in zip(var.keys, leaves, strict=True)})
            tensors.update({name: tensors[first] for name, first in self._ties.items() if first in tensors})
            arguments = (call, self.v.seen(v), self.theta.seen(theta), batch)
            value = functional_call(self._host, tensors, arguments, tie_weights=False)
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
            what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            name = "outer" if which == "f" else "inner"
            raise ProblemError(f"the {name} loss must return a scalar tensor, got {what}: use .mean() or .sum()")
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

    def forward(self, call: Callable[[Any, Any, Any], T], v: Any, theta: Any, batch: Any) -> T:
        return call(v, theta, batch)


def _ties(module: nn.Module) -> dict[str, str]:
    """For parameters and buffers with several names, the first one by each of the others.

    `functional_call` would find them anew at every call.
    """
    firsts: dict[Tensor, str] = {}
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return {name: first for name, tensor in named if (first := firsts.setdefault(tensor, name)) != name}


def _flatten(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _flatten(item, f"{name}[{i}]")
    else:
        kinds = "a tensor, a list or dict of tensors, or an nn.Module"
        raise ProblemError(f"{name} must be {kinds}, got {type(value).__name__}")


def _unflatten(form: Any, leaves: Iterator[Tensor]) -> Any:
    if isinstance(form, Tensor):
        return next(leaves)
    if isinstance(form, Mapping):
        return {key: _unflatten(item, leaves) for key, item in form.items()}
    items = [_unflatten(item, leaves) for item in form]
    return type(form)(*items) if hasattr(form, "_fields") else type(form)(items)


_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _check_leaf(name: str, leaf: Tensor) -> None:
    def refuse(what: str, remedy: str) -> None:
        raise ProblemError(f"{name} {what}: {remedy}")

    if leaf.dtype not in _DTYPES:
        refuse(
            f"has dtype {leaf.dtype}", "variables are float64, float32, bfloat16 or float16; convert it with .float()"
        )
    if leaf.layout != torch.strided:
        refuse("is sparse", "variables must be dense; sparse data belongs in the batch")
    if leaf.is_meta:
        refuse("is on the meta device and holds no values", "move it with .to_empty(...) and initialise it")
    if leaf.is_inference():
        refuse("was made in inference mode", "make it outside torch.inference_mode()")
    if not leaf.is_leaf:
        refuse("is the result of a differentiable computation", "pass .detach().clone()")
    if leaf.numel() == 0:
        refuse("is empty", "remove it or give it entries")
    if any(stride == 0 and size > 1 for stride, size in zip(leaf.stride(), leaf.shape, strict=True)):
        refuse("is expanded: several entries share memory", "pass .clone()")
    if not torch.isfinite(local(leaf)).all():
        refuse("starts with NaN or infinity", "start from finite values")


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


def _check_rules(variable: Variable, rules: tuple[Projection | None, ...]) -> None:
    """Try each projection on its tensor; that of a `PerSample` must treat rows alone, since a step sees only some."""
    for name, leaf, rule in zip(variable.names, variable.leaves, rules, strict=True):
        if rule is None:
            continue
        projected = rule(leaf.detach().clone())
        if not isinstance(projected, Tensor) or projected.shape != leaf.shape or projected.dtype != leaf.dtype:
            raise ProblemError(f"the projection of {name} must return a tensor of its shape and dtype")
        if variable.table is not None and len(leaf) > 1:
            probe = torch.linspace(-1e4, 1e4, leaf[:2].numel(), dtype=leaf.dtype, device=leaf.device).view_as(leaf[:2])
            if not torch.equal(rule(probe), torch.cat([rule(probe[:1]), rule(probe[1:])])):
                raise ProblemError(
                    f"the projection of {name} treats rows together, but a step sees only the rows of its batch: use "
                    "box or nonnegative, or a PerSample with a shape for simplex"
                )
