"""One outer step on live parameters, inside any training loop."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.ranks import is_sharded, local, shard_of, synchronises
from bome.core.trees import Pair, dot, scale
from bome.data.streams import Constant, Data, Stream
from bome.errors import NonFiniteError, ProblemError, StorageError, UnsupportedError
from bome.methods.base import Info, Method, Step, check_accepted
from bome.oracles import Oracle, OracleName, make
from bome.oracles.autograd import check_constraints, connections, second_order_failure
from bome.oracles.base import Needs, check
from bome.oracles.traces import generators, replay, snapshot
from bome.per_sample import RowSGD
from bome.problem import Batches, Problem
from bome.projections import Rules, left
from bome.stepper_checks import (
    Restarts,
    check_rowwise,
    default_optimiser,
    first_not_finite,
    groups_of,
    is_finite,
    outer_optimiser,
    surely_finite,
)
from bome.variable import Variable


class Stepper:
    """Steps a method around the user's own variables and optimisers.

    A step asks the method for a direction δ, writes it into `.grad`, lets the optimisers apply it, projects and counts.
    If NaN or infinity appears it raises `NonFiniteError`. Then, and if a loss raises, variables, optimisers, running
    statistics and torch's random generators are as they were before the step. What the user has in `.grad` of the
    variables is lost, as it would be by `zero_grad()`.

    Args:
        problem: the two losses and the live variables.
        method: such as `BOME(GradientDescent(lr=0.01, steps=10))`.
        outer_opt: a `torch.optim` optimiser over the tensors of v; applies δ_v. None in a problem without v.
        inner_opt: one over the tensors of θ; applies δ_θ. By default plain SGD with the inner map's step size.
        oracle: how to differentiate: "auto", "autograd", "func", "backward", or an `Oracle`.

    Attributes:
        k: outer steps done.
        state: the method's state.
        v_scale: a factor on the learning rate of v, for a tuner to set.
        v_limit: the longest step ξ_v δ_v, relative to 1 + ‖v‖, for a tuner to set; a longer one is shortened.
        keep_direction: whether `direction` is kept after a step, for a tuner to set.
        direction: δ of the last step, as far as projections left it.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        outer_opt: Optimizer | None = None,
        inner_opt: Optimizer | None = None,
        oracle: OracleName | Oracle = "auto",
    ) -> None:
        for name, value, kind in (("problem", problem, Problem), ("method", method, Method)):
            if not isinstance(value, kind):
                raise ProblemError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
        problem.check_unchanged()
        self.problem = problem
        self.method = method
        self.oracle = make(problem, oracle)
        check(self.oracle, method.name, method.requires)
        if method.inner_map is not None:
            self.oracle.check_inner(method.inner_map)
        check_accepted(problem, method)
        self.outer_opt = outer_optimiser(problem.v, outer_opt)
        self.inner_opt = inner_opt if inner_opt is not None else default_optimiser(problem.theta, method)
        self._groups_v = groups_of(problem.v, self.outer_opt, "outer_opt") if problem.v.given else []
        self._groups_theta = groups_of(problem.theta, self.inner_opt, "inner_opt")
        if problem.v.table is not None:
            check_rowwise(self.outer_opt)
        problem.enter_sets()
        self.state: State = method.init(self.oracle, problem.point)
        self.k = 0
        self.v_scale = 1.0
        self.v_limit = math.inf
        self.keep_direction = False
        self.direction: Pair | None = None
        self._connected = False
        self._restarts = Restarts()

    @property
    def counts(self) -> Counter[str]:
        """Evaluations so far: "f", "g" and second-order products."""
        return self.oracle.counts

    @property
    def metric(self) -> Metric:
        """The current step size of each leaf, as the optimisers' parameter groups say."""
        groups_v, groups_theta = self.outer_opt.param_groups, self.inner_opt.param_groups
        return Metric(
            tuple(self.v_scale * groups_v[i]["lr"] for i in self._groups_v),
            tuple(groups_theta[i]["lr"] for i in self._groups_theta),
        )

    def step(self, *, outer: Any = None, inner: Any = None) -> Info:
        """One outer step.

        Args:
            outer: a batch for f, or a stream of them.
            inner: likewise for g. If the method takes several, as many are drawn from a stream such as `Minibatches`; a
                batch is given to all of them, which is right for all data: of minibatches such a method wants new ones.
        """
        data = Data(outer=_stream(outer), inner=_stream(inner))
        return self.step_on(data.draw(outer=self.method.outer_batches, inner=self.method.inner_batches))

    def step_on(self, batches: Batches) -> Info:
        """One outer step; `batches` holds as many inner and outer batches as the method takes."""
        if torch.is_inference_mode_enabled():
            raise ProblemError("a step needs gradients: call it outside torch.inference_mode()")
        self._check_batches(batches)
        self.problem.check_unchanged()
        self._restarts.warn(self.problem.theta, self.method)
        rows, placed = self.problem.localise(batches)
        point = self.problem.point
        if rows is not None:
            point = Pair(self._rows_now(rows), point.theta)
        restore = snapshot(self.problem)
        try:
            if not self._connected:
                check_constraints(self.problem, batches)
                self._check_second_order(batches)
            step = self._computed(point, placed)
            if not self._connected:
                self._check_connected(batches)
        except BaseException:
            restore()
            raise
        if step.new_theta is not None:
            _copy(self.problem.theta.leaves, step.new_theta)
        if rows is not None:
            self._settle(rows, point.v)
        delta_v = self._limited(step, point)
        if rows is not None:
            delta_v = tuple(map(local, delta_v))  # the rows of this rank
        left = self._left(step.direction, point) if self.keep_direction else None
        with _scaled(self.outer_opt, self.v_scale):
            self._apply(self.problem.v, self.outer_opt, delta_v, self.problem.project_v, rows)
        self._apply(self.problem.theta, self.inner_opt, step.direction.theta, self.problem.project_theta, None)
        self.state, self.direction = step.state, left
        self.k += 1
        self._restarts.after(self.problem.theta)
        return step.info

    def settle(self) -> None:
        """Bring all rows of a `PerSample` up to date, where the optimiser puts that off; at the end of training."""
        if isinstance(self.outer_opt, RowSGD):
            self.outer_opt.flush()
            with torch.no_grad():
                self.problem.project_v.write(self.problem.v.leaves)

    @property
    def current_v(self) -> Leaves:
        """v with the steps that some rows of a `PerSample` have missed, if the optimiser puts such steps off."""
        if self.problem.v.table is None:
            return self.problem.point.v
        return self._rows_now(torch.arange(len(self.problem.v.leaves[0]), device=self.problem.v.leaves[0].device))

    def _rows_now(self, rows: Tensor) -> Leaves:
        """These rows of v with the steps they have missed, if the optimiser puts such steps off; nothing is written."""
        if not isinstance(self.outer_opt, RowSGD):
            return tuple(x.detach()[rows] for x in self.problem.v.leaves)
        return self.problem.project_v(tuple(self.outer_opt.current(x, rows) for x in self.problem.v.leaves))

    def _settle(self, rows: Tensor, values: Leaves) -> None:
        """Write what `_rows_now` has told."""
        if isinstance(self.outer_opt, RowSGD):
            for leaf, value in zip(self.problem.v.leaves, values, strict=True):
                self.outer_opt.settle(leaf, rows)
                with torch.no_grad():
                    leaf[rows] = value

    def state_dict(self) -> dict[str, Any]:
        """All that steps change, as checkpoints hold it; tensors are the live ones."""
        return {
            "step": self.k,
            "method": repr(self.method),
            "v": [x.detach() for x in self.problem.v.leaves],
            "theta": [x.detach() for x in self.problem.theta.leaves],
            "buffers": self.problem.buffers,
            "outer_opt": self.outer_opt.state_dict(),
            "inner_opt": self.inner_opt.state_dict(),
            "state": {name: list(leaves) for name, leaves in self.state.items()},
            "counts": dict(self.counts),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another stepper of the same problem and method was.

        Raises:
            StorageError: the state is of another problem or of other optimisers.
        """
        problem = self.problem
        for variable, key in ((problem.v, "v"), (problem.theta, "theta")):
            kinds = [(tuple(x.shape), x.dtype) for x in state[key]]
            if kinds != [(tuple(x.shape), x.dtype) for x in variable.leaves]:
                raise StorageError(f"the checkpoint is of another problem: its {key} has shapes and dtypes {kinds}")
        if state["buffers"].keys() != problem.buffers.keys():
            raise StorageError("the checkpoint is of another run: it has other running statistics or schedulers")
        _copy((*problem.v.leaves, *problem.theta.leaves), (*state["v"], *state["theta"]))
        _copy(tuple(problem.buffers.values()), tuple(state["buffers"][name] for name in problem.buffers))
        for name, optimiser in (("outer_opt", self.outer_opt), ("inner_opt", self.inner_opt)):
            try:
                optimiser.load_state_dict(_sharded_state(optimiser, state[name]))
            except (ValueError, KeyError) as error:
                raise StorageError(f"the checkpoint is of another {name}: {error}") from error
        device = problem.theta.leaves[0].device
        fresh = self.state
        self.state = {name: tuple(x.to(device) for x in leaves) for name, leaves in state["state"].items()}
        for name in self.state.keys() & fresh.keys():
            if len(self.state[name]) == len(fresh[name]):
                pairs = zip(self.state[name], fresh[name], strict=True)
                self.state[name] = tuple(shard_of(x, like) for x, like in pairs)
        self.k = state["step"]
        self.oracle.counts = Counter(state["counts"])

    def _computed(self, point: Pair, batches: Batches) -> Step:
        """The method's step, or `NonFiniteError`."""
        random = generators()
        self.oracle.begin()
        try:
            step = self.method.step(self.oracle, point, self.state, batches, self.metric)
        except NonFiniteError as error:  # of an inner solver
            raise NonFiniteError(self.k, error.where, error.hint) from None
        if surely_finite(step) or self.oracle.everywhere(is_finite(step)):
            return step
        replay(random)  # the same dropout masks again
        raise self._located(point, batches, step)

    def _located(self, point: Pair, batches: Batches, failed: Step) -> NonFiniteError:
        """Repeat the failed step with every evaluation watched, to say where it failed."""
        started = first_not_finite(self.problem.v, point.v) or first_not_finite(self.problem.theta, point.theta)
        if started is not None:
            return NonFiniteError(self.k, f"{started} before the step", "the last update overflowed: lower its lr")
        counts = self.oracle.counts.copy()
        self.oracle.watching = True
        try:
            self.method.step(self.oracle, point, self.state, batches, self.metric)
        except NonFiniteError as error:
            return NonFiniteError(self.k, error.where, error.hint)
        finally:
            self.oracle.watching = False
            self.oracle.counts = counts
        return NonFiniteError(self.k, self._first_failure(failed), "try smaller step sizes")

    def _first_failure(self, step: Step) -> str:
        """The place as far as the outcome tells it, for losses that are finite when they are called again."""
        info = step.info
        for label, value in (("g at (v, θ)", info.g), ("g on the way to θ^(T)", info.q), ("f at (v, θ)", info.f)):
            if value is not None and not torch.isfinite(value):
                return label
        direction = step.direction
        name = first_not_finite(self.problem.v, direction.v) or first_not_finite(self.problem.theta, direction.theta)
        return f"the direction of {self.method.name}" + (f" in {name}" if name is not None else "")

    def _left(self, direction: Pair, point: Pair) -> Pair:
        """What projections leave of δ."""
        sides = zip(point, direction, self.metric, (self.problem.project_v, self.problem.project_theta), strict=True)
        return Pair(*(left(x, delta, rates, rules) if rules and delta else delta for x, delta, rates, rules in sides))

    def _limited(self, step: Step, point: Pair) -> Leaves:
        """δ_v, shortened where the step would be longer than `v_limit` allows; without waiting for the device."""
        if self.v_limit == math.inf or not step.direction.v:
            return step.direction.v
        squares = [rate**2 * dot((x,), (x,)) for rate, x in zip(self.metric.v, step.direction.v, strict=True)]
        longest = self.v_limit * (1 + dot(point.v, point.v).sqrt())
        return scale((longest / torch.stack(squares).sum().sqrt()).clamp(max=1), step.direction.v)

    def _apply(
        self,
        variable: Variable,
        optimiser: Optimizer,
        direction: Leaves,
        rules: Rules,
        rows: Tensor | None,
    ) -> None:
        for leaf in variable.leaves:
            leaf.grad = None  # what the user left there is none of the direction
        for leaf, delta in zip(variable.leaves, direction, strict=bool(direction)):
            leaf.grad = delta if rows is None else _sparse(rows, delta, leaf.shape)
        with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]  # else optimisers warn
            optimiser.step()  # without gradients nothing moves, but schedulers know that a step was made
        for leaf in variable.leaves:
            leaf.grad = None
        with torch.no_grad():
            if rows is None:
                rules.write(variable.leaves)
            elif rules:
                for leaf, moved in zip(variable.leaves, rules(tuple(x[rows] for x in variable.leaves)), strict=True):
                    leaf[rows] = moved

    def _check_batches(self, batches: Batches) -> None:
        for kind, given, wanted in (
            ("inner", len(batches.inner), self.method.inner_batches),
            ("outer", len(batches.outer), self.method.outer_batches),
        ):
            if given != wanted:
                raise ProblemError(
                    f"{self.method.name} takes {wanted} {kind} batches a step, got {given}: "
                    "use step(inner=..., outer=...), which repeats a batch or draws from streams, or run(...)"
                )

    def _check_connected(self, batches: Batches) -> None:
        """Refuse losses that no gradient flows through, before the first step changes anything.

        v may be of use in constraints alone.
        """
        problem, links = self.problem, self.oracle.links
        if len(links) < 4:  # not all of f and g, v and θ were asked for, or it cannot tell
            if any(synchronises(module) for module in problem.modules):
                self._connected = True
                return
            links = dict.fromkeys(connections(problem, batches), True)
        if not links.get(("g", "theta")):
            raise ProblemError("no gradient flows from the inner loss to theta: is it used, and not detached?")
        if not links.get(("f", "theta")) and not links.get(("f", "v")):
            raise ProblemError("no gradient flows from the outer loss to v or theta: is it detached?")
        linked = links.get(("g", "v")) or links.get(("f", "v")) or problem.constraints
        if problem.v.given and not linked:
            raise ProblemError(
                "no gradient flows from either loss to v: is it used, and not detached or rounded? leave v out if "
                "there is none"
            )
        self._connected = True

    def _check_second_order(self, batches: Batches) -> None:
        """Refuse losses that cannot be differentiated twice where that is needed, before the first step."""
        if self.method.requires & (Needs.HVP | Needs.UNROLL):
            self._check_connected(batches)
            reason = second_order_failure(self.problem, batches)
            if reason is not None:
                raise UnsupportedError(
                    f"{self.method.name} needs second-order products, which this model cannot give ({reason}); "
                    "first-order methods work here: bome, bome-z, probe, pbgd, f2sa, bvfsm, meha, bsg1, darts, sama"
                )


def _sharded_state(optimiser: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """The saved state of an optimiser, with whole tensors laid out as the parameters are that they belong to."""
    live = [p for group in optimiser.param_groups for p in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    if not any(map(is_sharded, live)) or len(live) != len(numbers):
        return state
    laid = {
        number: {
            key: shard_of(value, p) if isinstance(value, Tensor) and value.shape == p.shape else value
            for key, value in state["state"].get(number, {}).items()
        }
        for number, p in zip(numbers, live, strict=True)
    }
    return {**state, "state": {number: each for number, each in laid.items() if each}}


def _stream(batch: Any) -> Stream:
    """The stream that was given, or the batch again and again."""
    return batch if isinstance(batch, Stream) else Constant(batch)


def _sparse(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """A gradient that is zero outside of some rows, which are sorted, without duplicates and in range."""
    return torch.sparse_coo_tensor(rows[None], values, shape, is_coalesced=True, check_invariants=False)


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
            target.copy_(shard_of(value, target))
