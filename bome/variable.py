"""The two variables of a problem: live tensors, their names, and the forms in which losses see them."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bome._typing import Leaves, Projection
from bome.core.ranks import is_sharded, local
from bome.errors import ProblemError
from bome.per_sample import PerSample
from bome.projections import Joint, Rules

Role = Literal["v", "theta"]
Projections = Projection | Joint | Rules | Mapping[str, Projection]
"""One projection for every tensor, `joint(...)` for all of them together, or one for each name of a dict (names without
one are free)."""


class Variable:
    """One of the two variables: its live tensors, their names, and their form as the losses see it.

    Attributes:
        role: "v" or "theta".
        value: the object the user gave; None for the v of a problem without v.
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
            named = list(_flatten(self._form, role)) if self.given else []
            self.keys = tuple(value) if isinstance(value, Mapping) else ()
            self.names = tuple(n for n, _ in named)
            self.leaves = tuple(t for _, t in named)
        if not self.leaves and self.given:
            frozen = self.module is not None and any(True for _ in self.module.parameters())
            raise ProblemError(
                f"{role} has no tensor to optimise"
                + (": all parameters of the module are frozen (requires_grad=False)" if frozen else "")
            )
        for name, leaf in zip(self.names, self.leaves, strict=True):
            _check_leaf(name, leaf)
        self._layout = _Layout(self.module) if self.module is not None else None

    def check_unchanged(self) -> None:
        """Refuse to go on where the user has put another tensor in the place of one of ours."""
        if self._layout is not None and (self._layout.stands() or any(map(is_sharded, self.leaves))):
            return  # while FSDP2 works, a module holds other tensors
        live: dict[str, Tensor]
        if self.module is not None:
            live = {f"{self.role}[{n!r}]": p for n, p in self.module.named_parameters() if p.requires_grad}
        else:
            live = dict(_flatten(self._form, self.role)) if self.given else {}
        for name, leaf in zip(self.names, self.leaves, strict=True):
            if live.pop(name, None) is not leaf:
                raise _changed(f"{name} was replaced, removed or frozen")
        for name in live:
            raise _changed(f"{name} was added or set free")
        self._layout = _Layout(self.module) if self.module is not None else None

    @property
    def given(self) -> bool:
        """Whether there is one at all: a problem need not have a v."""
        return self.value is not None or self.role == "theta"

    def seen(self, leaves: Leaves) -> Any:
        """What a loss sees: the tensors in the user's own form (tensor, list, dict), the module, or None without v."""
        if self.module is not None or not self.given:
            return self.module
        return _unflatten(self._form, iter(leaves))

    def rules(self, projections: Projections | None) -> Rules:
        """A projection, or none, for each leaf, or one for all of them."""
        if projections is not None and not self.given:
            raise ProblemError(f"project_{self.role} is given, but there is no {self.role}: leave it out")
        if isinstance(projections, Rules):
            return projections
        if isinstance(projections, Joint):
            return Rules((None,) * len(self.leaves), projections)
        if projections is None or callable(projections):
            return Rules((projections,) * len(self.leaves))
        if not isinstance(projections, Mapping) or not all(callable(rule) for rule in projections.values()):
            raise ProblemError(f"project_{self.role} must be a projection such as box(0, 1), or a dict of them by name")
        unknown = sorted(set(projections) - set(self.keys))
        if unknown or len(self.keys) != len(self.leaves):
            raise ProblemError(f"project_{self.role} names {unknown or 'entries'}, but {self.role} has {self.names}")
        return Rules(tuple(projections.get(key) for key in self.keys))


class _Layout:
    """Which objects a module is made of, so that it is seen at once whether it still is made of them."""

    def __init__(self, module: nn.Module) -> None:
        self._registers = [register for part in module.modules() for register in (part._modules, part._parameters)]
        self._sizes = [len(register) for register in self._registers]
        self._parts = [(register, name, part) for register in self._registers for name, part in register.items()]
        self._trained = [(p, p.requires_grad) for p in module.parameters()]

    def stands(self) -> bool:
        """Whether nothing was replaced, added, removed or frozen."""
        return (
            all(register.get(name) is part for register, name, part in self._parts)
            and all(p.requires_grad is trained for p, trained in self._trained)
            and self._sizes == [len(register) for register in self._registers]
        )


def _changed(what: str) -> ProblemError:
    return ProblemError(
        f"{what} after the Problem was made, as LoRA and pruning do, and the change would not be trained: "
        "change the model first, then make the Problem and its optimisers"
    )


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
