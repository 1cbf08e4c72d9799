"""One outer step on live parameters, inside any training loop."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from bome._typing import Leaves, Projection, State
from bome.barrier import Metric
from bome.distributed import synchronises
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle, OracleName, make
from bome.oracles.autograd import connections
from bome.oracles.base import check
from bome.problem import Batches, Problem, Variable
from bome.trees import Pair


class Stepper:
    """Steps a method around the user's own variables and optimisers.

    A step asks the method for a direction δ, writes it into `.grad`, lets the optimisers apply it, projects and counts.
    If NaN or infinity appears, it raises `NonFiniteError` and leaves variables and optimisers as they were.

    Args:
        problem: the two losses and the live variables.
        method: such as `BOME(GradientDescent(lr=0.01, steps=10))`.
        outer_opt: a `torch.optim` optimiser over the tensors of v; applies δ_v.
        inner_opt: one over the tensors of θ; applies δ_θ. By default plain SGD with the inner map's step size.
        oracle: how to differentiate: "auto", "autograd", "func", "backward", or an `Oracle`.

    Attributes:
        k: outer steps done.
        state: the method's state.
        v_scale: a factor on the learning rate of v, for a tuner to set.
        move_v: the direction δ_v of the last step.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        outer_opt: Optimizer,
        inner_opt: Optimizer | None = None,
        oracle: OracleName | Oracle = "auto",
    ) -> None:
        self.problem = problem
        self.method = method
        self.oracle = make(problem, oracle)
        check(self.oracle, method.name, method.requires)
        reason = method.refusal(problem)
        if reason is not None:
            raise UnsupportedError(f"{method.name} cannot solve this problem: {reason}")
        self.outer_opt = outer_opt
        self.inner_opt = inner_opt if inner_opt is not None else _default_optimiser(problem.theta, method)
        self._groups_v = _groups(problem.v, self.outer_opt, "outer_opt")
        self._groups_theta = _groups(problem.theta, self.inner_opt, "inner_opt")
        self.state: State = method.init(self.oracle, problem.point)
        self.k = 0
        self.v_scale = 1.0
        self.move_v: Leaves = ()
        self._connected = False

    @property
    def counts(self) -> Counter[str]:
        """Evaluations so far: "f", "g" and second-order products."""
        return self.oracle.counts

    @property
    def metric(self) -> Metric:
        """The current step size of each leaf, as the optimisers' parameter groups say."""
        return Metric(tuple(self.v_scale * g["lr"] for g in self._groups_v), tuple(g["lr"] for g in self._groups_theta))

    def step(self, inner_batch: Any = None, outer_batch: Any = None) -> Info:
        """One outer step on one inner and one outer batch."""
        return self.step_on(Batches((inner_batch,), (outer_batch,)))

    def step_on(self, batches: Batches) -> Info:
        """One outer step; `batches` holds as many inner and outer batches as the method takes."""
        if not self._connected:
            self._check_batches(batches)
            self._check_connected(batches)
        rows, batches = self.problem.localise(batches)
        point = self.problem.point
        if rows is not None:
            point = Pair(tuple(x[rows] for x in point.v), point.theta)
        step = self._guarded(point, batches)
        if step.new_theta is not None:
            _copy(self.problem.theta.leaves, step.new_theta)
        with _scaled(self.outer_opt, self.v_scale):
            self._apply(self.problem.v, self.outer_opt, step.direction.v, self.problem.project_v, rows)
        self._apply(self.problem.theta, self.inner_opt, step.direction.theta, self.problem.project_theta, None)
        self.state, self.move_v = step.state, step.direction.v
        self.k += 1
        return step.info

    def _guarded(self, point: Pair, batches: Batches) -> Step:
        """The method's step, or `NonFiniteError` with everything as it was."""
        buffers = {name: buffer.clone() for name, buffer in self.problem.buffers.items()}
        self.oracle.begin()
        step = self.method.step(self.oracle, point, self.state, batches, self.metric)
        if _finite(step):
            return step
        with torch.no_grad():
            for name, buffer in self.problem.buffers.items():
                buffer.copy_(buffers[name])
        raise self._located(point, batches)

    def _located(self, point: Pair, batches: Batches) -> NonFiniteError:
        """Repeat the failed step with every evaluation watched, to say where it failed."""
        counts = self.oracle.counts.copy()
        self.oracle.watching = True
        try:
            self.method.step(self.oracle, point, self.state, batches, self.metric)
        except NonFiniteError as error:
            return NonFiniteError(self.k, error.where, error.hint)
        finally:
            self.oracle.watching = False
            self.oracle.counts = counts
        return NonFiniteError(self.k, f"the direction of {self.method.name}", "try smaller step sizes")

    def _apply(
        self,
        variable: Variable,
        optimiser: Optimizer,
        direction: Leaves,
        rules: tuple[Projection | None, ...],
        rows: Tensor | None,
    ) -> None:
        if direction:
            for leaf, delta in zip(variable.leaves, direction, strict=True):
                leaf.grad = delta if rows is None else torch.sparse_coo_tensor(rows[None], delta, leaf.shape)
            optimiser.step()
            for leaf in variable.leaves:
                leaf.grad = None
        with torch.no_grad():
            for leaf, rule in zip(variable.leaves, rules, strict=True):
                if rule is not None and rows is None:
                    leaf.copy_(rule(leaf))
                elif rule is not None:
                    leaf[rows] = rule(leaf[rows])

    def _check_batches(self, batches: Batches) -> None:
        for kind, given, wanted in (
            ("inner", len(batches.inner), self.method.inner_batches),
            ("outer", len(batches.outer), self.method.outer_batches),
        ):
            if given != wanted:
                raise ProblemError(
                    f"{self.method.name} takes {wanted} {kind} batches a step, got {given}: "
                    "use step_on(Batches(inner=..., outer=...)) or run(...)"
                )

    def _check_connected(self, batches: Batches) -> None:
        """Refuse losses that no gradient flows through, before the first step."""
        self._connected = True
        if any(synchronises(module) for module in self.problem.modules):
            return
        found = connections(self.problem, batches)
        if ("g", "theta") not in found:
            raise ProblemError("no gradient flows from the inner loss to theta: is it used, and not detached?")
        if ("g", "v") not in found and ("f", "v") not in found:
            raise ProblemError("no gradient flows from either loss to v: is it used, and not detached or rounded?")


def _default_optimiser(theta: Variable, method: Method) -> Optimizer:
    lr = getattr(getattr(method, "inner", None), "lr", None)
    if lr is None:
        raise ProblemError(f"{method.name} has no step size for theta: pass inner_opt=torch.optim.SGD(theta, lr=...)")
    return SGD(theta.leaves, lr=lr)


def _groups(variable: Variable, optimiser: Optimizer, argument: str) -> list[dict[str, Any]]:
    """The parameter group of each leaf; every leaf must be in the optimiser, and nothing else."""
    owners = {id(p): group for group in optimiser.param_groups for p in group["params"]}
    for name, leaf in zip(variable.names, variable.leaves, strict=True):
        if id(leaf) not in owners:
            raise ProblemError(f"{name} is not among the parameters of {argument}: construct it over {variable.role}")
    known = {id(leaf) for leaf in variable.leaves}
    strangers = [p for group in optimiser.param_groups for p in group["params"] if id(p) not in known]
    if any(p.requires_grad for p in strangers):
        shapes = [tuple(p.shape) for p in strangers]
        raise ProblemError(f"{argument} holds tensors of shapes {shapes} that are not in {variable.role}")
    return [owners[id(leaf)] for leaf in variable.leaves]


def _finite(step: Step) -> bool:
    """Whether all of the direction is finite: one look at the device.

    A sum is not finite if a term is not; a sum of finite terms that overflows is told apart by looking at each entry.
    """
    leaves: Iterable[Tensor] = step.direction.v + step.direction.theta + (step.new_theta or ())
    total = torch.stack([leaf.sum().double() for leaf in leaves] + [step.info.f.double()]).sum()
    return bool(torch.isfinite(total)) or all(bool(torch.isfinite(x).all()) for x in (*leaves, step.info.f))


@contextmanager
def _scaled(optimiser: Optimizer, factor: float) -> Iterator[None]:
    """Multiply the learning rates for a while; schedulers see the original ones."""
    if factor == 1.0:
        yield
        return
    rates = [group["lr"] for group in optimiser.param_groups]
    for group in optimiser.param_groups:
        group["lr"] = group["lr"] * factor
    try:
        yield
    finally:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate


def _copy(targets: Leaves, values: Leaves) -> None:
    with torch.no_grad():
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)
