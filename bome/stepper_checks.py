"""What a `Stepper` refuses, and where NaN or infinity appeared."""

import math
import warnings

import torch
from torch.optim import LBFGS, SGD, Adagrad, Optimizer, SparseAdam

from bome._typing import Leaves
from bome.core.ranks import local
from bome.errors import ProblemError
from bome.methods.base import Method, Step
from bome.variable import Variable


def default_optimiser(theta: Variable, method: Method) -> Optimizer:
    """Plain SGD on θ with the step size of the inner map; where θ moves without it, any will do."""
    lr = getattr(method.inner_map, "lr", None if method.moves_theta else 1.0)
    if lr is None:
        raise ProblemError(f"{method.name} has no step size for theta: pass inner_opt=torch.optim.SGD(theta, lr=...)")
    return SGD(theta.leaves, lr=lr)


def outer_optimiser(v: Variable, given: Optimizer | None) -> Optimizer:
    """The one given; without v one that has nothing to do."""
    if given is None and v.given:
        raise ProblemError("outer_opt is missing: pass an optimiser of v, such as torch.optim.SGD(v, lr=...)")
    if given is not None and not v.given:
        raise ProblemError("outer_opt is given, but there is no v: leave it out")
    return given if given is not None else SGD([torch.zeros(())], lr=1.0)


def groups_of(variable: Variable, optimiser: Optimizer, argument: str) -> list[int]:
    """The number of the parameter group of each leaf; every leaf must be in the optimiser, and nothing else.

    Numbers, since `load_state_dict` makes new groups.
    """
    if not hasattr(optimiser, "param_groups"):
        raise ProblemError(f"{argument} must be an optimiser such as torch.optim.SGD, got {type(optimiser).__name__}")
    if isinstance(optimiser, LBFGS):
        raise ProblemError(f"{argument} cannot be LBFGS, which evaluates the loss itself: use SGD or Adam")
    owners = {id(p): number for number, group in enumerate(optimiser.param_groups) for p in group["params"]}
    for name, leaf in zip(variable.names, variable.leaves, strict=True):
        if id(leaf) not in owners:
            raise ProblemError(f"{name} is not among the parameters of {argument}: construct it over {variable.role}")
    known = {id(leaf) for leaf in variable.leaves}
    strangers = [p for group in optimiser.param_groups for p in group["params"] if id(p) not in known]
    if any(p.requires_grad for p in strangers):
        shapes = [tuple(p.shape) for p in strangers]
        raise ProblemError(f"{argument} holds tensors of shapes {shapes} that are not in {variable.role}")
    return [owners[id(leaf)] for leaf in variable.leaves]


def check_rowwise(optimiser: Optimizer) -> None:
    """Refuse optimisers of torch that fail on sparse gradients, or that move rows other than those of the batch."""
    known = isinstance(optimiser, (SGD, Adagrad, SparseAdam))
    options = {key for group in optimiser.param_groups for key in ("momentum", "weight_decay") if group.get(key)}
    if (known and options) or (not known and type(optimiser).__module__.startswith("torch.optim")):
        what = " with " + " and ".join(sorted(options)) if known else ""
        raise ProblemError(
            f"{type(optimiser).__name__}{what} moves all rows of a PerSample, not only those of the batch: use SGD or "
            "Adagrad without momentum and weight decay, bome.RowSGD with momentum, or SparseAdam"
        )


class Restarts:
    """Whether somebody puts θ back to the same values before each step, as a loop over few-shot tasks does."""

    LIMIT = 3
    """So many steps in a row."""

    def __init__(self) -> None:
        self._left: list[int] = []
        self._marks: list[list[float]] = []

    def warn(self, theta: Variable, method: Method) -> None:
        """Say it, before a step, where the method trains θ from step to step."""
        moved = bool(self._left) and all(x._version > n for x, n in zip(theta.leaves, self._left, strict=True))
        mark = [float(local(x.detach()).sum()) for x in theta.leaves] if moved and method.moves_theta else []
        self._marks = [*self._marks, mark] if mark and mark in (self._marks[-1:] or [mark]) else []
        if len(self._marks) == self.LIMIT:
            warnings.warn(
                f"θ was put back to the same values before each of the last {self.LIMIT} steps, but {method.name} "
                "trains θ from step to step: for tasks that begin anew use itd, whose step takes T inner steps from θ",
                stacklevel=4,
            )

    def after(self, theta: Variable) -> None:
        """Remember what a step has left."""
        self._left = [x._version for x in theta.leaves]


def surely_finite(step: Step) -> bool:
    """Whether the direction must be finite, by numbers that all ranks know: no entry is longer than the whole.

    One look at the device.
    """
    if step.size is None or step.new_theta is not None:
        return False
    values = [x for x in (step.info.f, step.info.g, step.info.q, step.info.lam) if x is not None]
    *numbers, size = torch.stack([x.double() for x in (*values, step.size)]).tolist()
    limit = min(torch.finfo(x.dtype).max for x in step.direction.v + step.direction.theta) / 2
    return all(map(math.isfinite, (*numbers, size))) and math.sqrt(max(size, 0.0)) < limit


def is_finite(step: Step) -> bool:
    """Whether the direction, the losses and λ are finite on this rank: one look at the device.

    A sum is not finite if a term is not; a sum of finite terms that overflows is told apart by looking at each entry.
    """
    leaves = tuple(map(local, step.direction.v + step.direction.theta + (step.new_theta or ())))
    values = [x for x in (step.info.f, step.info.g, step.info.q, step.info.lam) if x is not None]
    total = torch.zeros((), dtype=torch.float64, device=step.info.f.device)
    for x in (*leaves, *values):
        total = total + x.sum()
    return math.isfinite(float(total)) or all(bool(torch.isfinite(x).all()) for x in (*leaves, *values))


def first_not_finite(variable: Variable, leaves: Leaves) -> str | None:
    """The name of the first tensor with NaN or infinity."""
    named = zip(variable.names, leaves, strict=False)
    return next((name for name, leaf in named if not torch.isfinite(local(leaf)).all()), None)
