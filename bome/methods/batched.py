"""Many runs as one: a method on a batch of points, instances and step sizes.

First-order methods go through `vmap`. A second-order method that is `separable` takes its step on the sum of the losses
of all runs: gradients and Hessian products of a sum of independent problems are those of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import vmap

from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError, UnsupportedError
from bome.inner import InnerMap
from bome.methods.base import Batches, Info, Method, Step
from bome.oracles import FuncOracle, Oracle, OracleName
from bome.oracles.base import Needs
from bome.problem import Problem


@dataclass(frozen=True)
class Batched(Method):
    """B independent runs side by side: every tensor of v and θ has a first dimension of size B.

    The losses see one run at a time, as they would without the batch. All runs share the optimisers, so a run with a
    step size of its own has its direction scaled. A run whose direction or losses are not finite is put to rest: it has
    no direction any more, and `alive` in the state says so. Quantities in `info` are means over the runs alive.

    Attributes:
        method: the method: first-order, on a `FuncOracle`; or separable, on an `AutogradOracle` of the summed losses.
        own_data: whether batches have the dimension too: one instance of the problem for each run. Batches of
            `torch.func.vmap`'s dimensions (0 or None in the place of every tensor) say it part by part; the first of
            them stands for all that a step takes.
        v_scale: a factor on the direction of v for each run.
        theta_scale: likewise for θ.
    """

    method: Method
    own_data: bool | Batches = False
    v_scale: tuple[float, ...] = ()
    theta_scale: tuple[float, ...] = ()

    name: ClassVar[str] = "batched"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __post_init__(self) -> None:
        if not batchable(self.method):
            raise UnsupportedError(
                "only first-order methods that decide nothing and separable methods run as a batch; "
                f"{self.method.name} is neither"
            )

    @property
    def oracle(self) -> OracleName:
        """The oracle it runs on."""
        return "func" if self.method.requires == Needs.FIRST_ORDER else "autograd"

    @property
    def chooses(self) -> bool:  # type: ignore[override]
        """As the method."""
        return self.method.chooses

    @property
    def inner_map(self) -> InnerMap | None:
        """As the method."""
        return self.method.inner_map

    @property
    def inner_batches(self) -> int:
        """As the method."""
        return self.method.inner_batches

    @property
    def outer_batches(self) -> int:
        """As the method."""
        return self.method.outer_batches

    def theta_steps(self, k: int) -> int:
        """As the method."""
        return self.method.theta_steps(k)

    def refusal(self, problem: Problem) -> str | None:
        """Variables must have the dimension of the runs."""
        sizes = {x.shape[0] if x.dim() else 0 for x in problem.v.leaves + problem.theta.leaves}
        if len(sizes) != 1 or 0 in sizes:
            return "every tensor of v and theta needs a first dimension that counts the runs"
        for name, scales in (("v_scale", self.v_scale), ("theta_scale", self.theta_scale)):
            if scales and {len(scales)} != sizes:
                raise ProblemError(f"{name} must have one factor for each of the {sizes.pop()} runs, got {len(scales)}")
        return None

    def init(self, oracle: Oracle, point: Pair) -> State:
        """The method's state for each run, and all of them alive."""
        if isinstance(oracle, FuncOracle) != (self.oracle == "func"):
            raise UnsupportedError(
                f"Batched({self.method.name}) needs oracle={self.oracle!r}, got {type(oracle).__name__}"
            )
        if self.oracle == "func":
            state: State = vmap(lambda v, theta: self.method.init(oracle, Pair(v, theta)))(point.v, point.theta)
        else:
            state = self.method.init(oracle, point)
        first = point.theta[0]
        return {**state, "alive": (torch.ones(first.shape[0], dtype=torch.bool, device=first.device),)}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One step of every run."""
        own = {name: leaves for name, leaves in state.items() if name != "alive"}
        if self.oracle == "func":
            direction, own, measured, new_theta = self._mapped(oracle, point, own, batches, metric)
        else:
            summed = self.method.step(oracle, point, own, batches, metric)
            direction, own, new_theta = summed.direction, summed.state, summed.new_theta or ()
            runs = len(state["alive"][0])
            measured = {"f": torch.nan_to_num(summed.info.f / runs).expand(runs)}  # only the sum is known
        losses = tuple(measured[name] for name in ("f", "g", "q", "lam") if name in measured)
        alive = state["alive"][0] & _finite(direction.v + direction.theta + new_theta + losses)
        rest = Pair(_masked(direction.v, alive, self.v_scale), _masked(direction.theta, alive, self.theta_scale))
        kept = tuple(torch.where(_like(alive, x), x, y) for x, y in zip(new_theta, point.theta, strict=False))
        means = {name: torch.where(alive, x, torch.nan).nanmean() for name, x in measured.items()}
        return Step(rest, {**own, "alive": (alive,)}, Info(**means), kept or None)

    def _mapped(
        self, oracle: Oracle, point: Pair, own: State, batches: Batches, metric: Metric
    ) -> tuple[Pair, State, dict[str, Tensor], Leaves]:
        """Directions, states, measurements and new θ of all runs, by `vmap`."""

        def one(
            v: Leaves,
            theta: Leaves,
            own: State,
            inner: tuple[Any, ...],
            outer: tuple[Any, ...],
            scales: list[Leaves],
        ) -> tuple[Pair, State, dict[str, Tensor], Leaves]:
            rates = Metric(*(_scaled(side, scale) for side, scale in zip(metric, scales, strict=True)))
            step = self.method.step(oracle, Pair(v, theta), own, Batches(outer=outer, inner=inner), rates)
            measured = {name: value for name, value in step.info._asdict().items() if value is not None}
            return step.direction, step.state, measured, step.new_theta or ()

        like = point.theta[0].new_empty((), dtype=torch.float64)
        scales: list[Leaves] = [(like.new_tensor(each),) if each else () for each in (self.v_scale, self.theta_scale)]
        inner: Any = 0 if self.own_data else None
        outer: Any = inner
        if isinstance(self.own_data, Batches):
            inner = self.own_data.inner[:1] * len(batches.inner)
            outer = self.own_data.outer[:1] * len(batches.outer)
        found: tuple[Pair, State, dict[str, Tensor], Leaves] = vmap(one, in_dims=(0, 0, 0, inner, outer, 0))(
            point.v, point.theta, own, batches.inner, batches.outer, scales
        )
        return found


def _scaled(rates: tuple[float, ...], scale: Leaves) -> tuple[Any, ...]:
    """The step sizes of one run; those of 0 stay numbers, since they tell what does not move."""
    return tuple(scale[0] * rate if scale and rate else rate for rate in rates)


def batchable(method: Method) -> bool:
    """Whether a method can run as a batch."""
    return (method.requires == Needs.FIRST_ORDER and not method.decides) or method.separable


def _like(flags: Tensor, x: Tensor) -> Tensor:
    return flags.reshape(-1, *(1,) * (x.dim() - 1))


def _finite(leaves: Leaves) -> Tensor:
    each = [torch.isfinite(x).reshape(x.shape[0], -1).all(dim=1) for x in leaves]
    return torch.stack(each).all(dim=0)


def _masked(leaves: Leaves, alive: Tensor, scales: tuple[float, ...]) -> Leaves:
    masked = tuple(torch.where(_like(alive, x), x, 0.0) for x in leaves)
    if not scales:
        return masked
    return tuple(_like(torch.tensor(scales, dtype=x.dtype, device=x.device), x) * x for x in masked)
