"""Any program that solves the inner problem, as an inner map."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bome._checks import check_arguments
from bome._typing import Leaves
from bome.core.microbatches import MicroBatches
from bome.errors import BilevelError, NonFiniteError, ProblemError, UnsupportedError
from bome.inner import InnerMap, needs_closure
from bome.problem import Located, Problem
from bome.variable import Variable

OUTSIDE = 1e-3
"""How far from its set, relative to 1 + |θ|, a solver's θ may be: it is exact to a tolerance, and projected."""


@dataclass(frozen=True)
class Solver(InnerMap):
    """θ*(v) by any program: L-BFGS of SciPy, an estimator of scikit-learn, a simulator, a formula.

    Args:
        fn: `fn(v, theta, batch) -> θ*(v)`, a minimiser of g(v, ·). It gets v and θ in the form the losses see, as
            copies: whatever it does to them is undone. θ is where the method stands, a start that may be used or not.
            It returns θ*(v) in the form of θ: tensors, NumPy arrays or numbers of its shapes, in a list or dict if θ is
            one. Where θ is a module, `fn` trains it in place and returns it, or returns a dict of its parameters.

    For methods that need to know no more of the inner problem than where it ends: bome, pbgd, aid-cg, darts, bsg1,
    alternating, stocbio with `neumann_lr`. Those that differentiate through inner steps refuse it. A call counts as one
    evaluation, of the kind "solves": how often `fn` evaluates g, nobody sees.

    `solve` is what methods, the certificate and `bome.solve` call. It may be relied on for this: it changes nothing in
    the problem; it returns new tensors of the shape, dtype and device of θ's leaves, finite and inside of
    `project_theta` (inner constraints are the business of `fn`); and whatever goes wrong is an error of one line.

    Example:
        `Solver(lambda v, theta, batch: torch.linalg.solve(A + v * torch.eye(n), b))`
    """

    fn: Callable[[Any, Any, Any], Any]
    steps: int = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        check_arguments("fn of Solver", self.fn, "θ")

    def with_steps(self, steps: int) -> "Solver":
        """Itself: there is no T."""
        return self

    def solve(self, problem: Problem, v: Leaves, theta: Leaves, batch: Any) -> Leaves:
        """θ*(v) on a batch, from a start θ.

        Raises:
            ProblemError: `fn` failed, or returned something else than a θ in its set.
            NonFiniteError: `fn` returned NaN or infinity.
        """
        if isinstance(batch, MicroBatches):
            raise ProblemError("a Solver takes an inner batch as a whole, not MicroBatches")
        if isinstance(batch, Located):
            v, batch = tuple(x[batch.places] for x in v), batch.batch
        with torch.enable_grad(), _lent(problem.v, v) as seen_v, _lent(problem.theta, theta) as seen_theta:
            try:
                found = self.fn(seen_v, seen_theta, batch)
            except BilevelError:
                raise
            except Exception as error:
                what = str(error).splitlines()[0] if str(error) else "no message"
                raise ProblemError(f"the inner solver raised {type(error).__name__}: {what}") from error
            leaves = tuple(_returned(problem.theta, found))
        return _inside(problem, leaves)


def check_allowed(inner: InnerMap, problem: Problem, *, alone: bool) -> None:
    """Refuse an inner map that cannot solve this problem, or only where a process works alone."""
    closure = needs_closure(inner, problem.point.theta)
    if not alone and (closure or isinstance(inner, Solver)):
        raise UnsupportedError(
            f"{type(inner).__name__} would end at another θ on every rank: use GradientDescent or AdamDescent"
        )
    if closure and problem.project_theta:
        raise UnsupportedError(
            "an optimiser that evaluates g itself, such as LBFGS, knows nothing of project_theta: use GradientDescent, "
            "or a Solver that respects the set"
        )


@contextmanager
def _lent(variable: Variable, values: Leaves) -> Iterator[Any]:
    """The variable in the form the losses see, with these values; at the end it is as it was before."""
    if variable.module is None:
        yield variable.seen(_copies(values))
        return
    live = variable.leaves
    held = [(x, x.detach().clone(), x.grad) for x in live]
    buffers = [(x, x.detach().clone()) for x in variable.module.buffers()]
    modes = [(part, part.training) for part in variable.module.modules()]
    try:
        _write(live, values)
        for x in live:
            x.grad = None
        yield variable.module
    finally:
        for x, value, grad in held:
            _write((x,), (value,))
            x.grad = grad
        _write(tuple(x for x, _ in buffers), tuple(value for _, value in buffers))
        for part, training in modes:
            part.training = training


def _copies(leaves: Leaves) -> Leaves:
    return tuple(x.detach().clone() for x in leaves)


def _write(targets: Leaves, values: Leaves) -> None:
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)


def _returned(theta: Variable, found: Any) -> Iterator[Tensor]:
    """The leaves of what `fn` returned."""
    if found is None:
        raise ProblemError("the inner solver returned nothing: end it with a return of θ, in the form it got")
    if theta.module is None:
        form: Any = theta.seen(theta.leaves)
    elif found is theta.module:
        yield from _copies(theta.leaves)
        return
    elif isinstance(found, nn.Module):
        raise ProblemError("the inner solver returned another module: train the one it is given, and return that")
    else:
        form = dict(zip(theta.keys, theta.leaves, strict=True))
        if isinstance(found, Mapping):
            found = {key: found[key] for key in form if key in found}  # a state_dict has buffers, too
    yield from _matched("theta", form, found)


def _matched(name: str, form: Any, found: Any) -> Iterator[Tensor]:
    """The tensors of what was found, in the order of a form that it must have."""
    if isinstance(form, Tensor):
        yield _tensor(name, form, found)
    elif isinstance(form, Mapping):
        if not isinstance(found, Mapping) or set(found) != set(form):
            got = f"the keys {sorted(map(str, found))}" if isinstance(found, Mapping) else type(found).__name__
            raise ProblemError(f"the inner solver must return {name} as a dict with the keys {sorted(form)}, got {got}")
        for key, part in form.items():
            yield from _matched(f"{name}[{key!r}]", part, found[key])
    else:
        if not isinstance(found, Sequence) or len(found) != len(form):
            got = f"{len(found)} entries" if isinstance(found, Sequence) else type(found).__name__
            raise ProblemError(f"the inner solver must return {name} as a list of {len(form)} entries, got {got}")
        for i, part in enumerate(form):
            yield from _matched(f"{name}[{i}]", part, found[i])


def _tensor(name: str, like: Tensor, found: Any) -> Tensor:
    """What was found for one leaf, as a tensor of its own."""
    try:
        x = torch.as_tensor(found).detach().to(dtype=like.dtype, device=like.device, copy=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ProblemError(f"the inner solver must return numbers for {name}, got {type(found).__name__}") from error
    if x.shape != like.shape:
        raise ProblemError(
            f"the inner solver must return {name} with shape {tuple(like.shape)}, got {tuple(x.shape)}: use .reshape"
        )
    return x


def _inside(problem: Problem, theta: Leaves) -> Leaves:
    """θ in its set; it must be finite, and there already to a tolerance."""
    for name, x in zip(problem.theta.names, theta, strict=True):
        if not torch.isfinite(x).all():
            raise NonFiniteError(-1, f"{name} of the inner solver", "look at what it returns for this v")
    inside = problem.project_theta(theta)
    for name, x, y in zip(problem.theta.names, theta, inside, strict=True):
        gap = float((y - x).abs().max())
        if gap > OUTSIDE * (1 + float(x.abs().max())):
            raise ProblemError(
                f"the inner solver returned {name} {gap:.1e} outside of its set: let it minimise g over the set of "
                "project_theta"
            )
    return inside
