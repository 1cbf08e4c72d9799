"""What a method is: a frozen record of hyper-parameters with a pure step that returns a direction."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import UnsupportedError
from bome.inner import InnerMap
from bome.oracles.autograd import AutogradOracle
from bome.oracles.base import Needs, Oracle
from bome.problem import Batches, Problem

__all__ = ["Batches", "Info", "Method", "Metric", "Step", "second_order"]


class Info(NamedTuple):
    """What a step measured, as 0-d tensors; None where the method has no such quantity.

    Attributes:
        f: f(v, θ).
        g: g(v, θ).
        q: q̂(v, θ) = g(v, θ) − g(v, θ^(T)).
        lam: the multiplier λ.
        kkt_gradient: min_{λ≥0} ‖∇f + λ∇q̂‖², the first part of the estimate of 𝒦; the second is q̂.
        cos: the cosine of the angle between ∇f and ∇q̂; NaN where one of them is 0.
        tail: the share of the decrease of g that the second half of the look-ahead brought ("is T enough?"); NaN where
            there was none.
    """

    f: Tensor
    g: Tensor | None = None
    q: Tensor | None = None
    lam: Tensor | None = None
    kkt_gradient: Tensor | None = None
    cos: Tensor | None = None
    tail: Tensor | None = None

    @property
    def kkt(self) -> Tensor | None:
        """The estimate of the stationarity measure 𝒦 from ∇q̂."""
        return None if self.kkt_gradient is None or self.q is None else self.kkt_gradient + self.q

    def numbers(self) -> dict[str, float]:
        """The quantities at hand as Python numbers (this waits for the device)."""
        named = {**self._asdict(), "kkt": self.kkt}
        return {name: float(value) for name, value in named.items() if value is not None}


class Step(NamedTuple):
    """The outcome of a step.

    Attributes:
        direction: what the optimisers subtract; an empty θ-part means that θ is not moved by its optimiser.
        state: the method's state for the next step.
        info: what was measured.
        new_theta: the new θ, for methods that solve the inner problem themselves.
        size: ‖direction‖², where the method has it at hand; it spares ranks a message on whether all is finite.
    """

    direction: Pair
    state: State
    info: Info
    new_theta: Leaves | None = None
    size: Tensor | None = None


def second_order(oracle: Oracle) -> AutogradOracle:
    """The oracle, known to give second-order products: a method that declares them is not run with another."""
    if not isinstance(oracle, AutogradOracle):
        raise UnsupportedError(f"{type(oracle).__name__} cannot give second-order products: use AutogradOracle")
    return oracle


class Method(ABC):
    """One outer step of an algorithm. Subclasses are frozen dataclasses; `step` is pure and reads like the paper.

    Inside `step`: no `.item()`, no random numbers, no printing, no writing to arguments, no `if` on a tensor.
    """

    name: ClassVar[str]
    """Its name in lists and in messages; by default that of the class in lower case."""
    requires: ClassVar[Needs] = Needs.FIRST_ORDER
    """What it asks of the oracle."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named settings: the values of some fields."""
    settles: ClassVar[Literal["solution", "penalty", "elsewhere"]] = "elsewhere"
    """Where it ends with enough inner steps and decreasing step sizes: at a solution; at a minimum of f + λ(g − g*)
    with the λ it reports, O(1/λ) from a solution; or elsewhere, which promises nothing."""
    bias: ClassVar[str] = ""
    """Why its v-direction is no hypergradient however many inner steps it takes, in a few words; empty if it is one."""
    accuracy: ClassVar[tuple[str, ...]] = ("inner", "K", "Q")
    """The fields whose growth removes the bias of its v-direction, as far as it has them; of `inner` it is T."""

    constrained: ClassVar[bool] = False
    """Whether it takes problems with constraints on (v, θ)."""
    chooses: ClassVar[bool] = False
    """Whether f chooses where g has several minimisers, so that it solves problems without v; else θ is any of them."""
    moves_theta: ClassVar[bool] = True
    """Whether θ moves by the optimiser of θ or by its step size; else a step takes θ from the inner map alone."""
    tunable: ClassVar[bool] = False
    """Whether its steps measure what the second half of the look-ahead brought (`Info.tail`), as a `Tuner` needs."""
    decides: ClassVar[bool] = False
    """Whether its step decides by numbers it has looked at, so that it can neither be compiled nor mapped over runs."""
    separable: ClassVar[bool] = False
    """Whether a step on a sum of independent problems is the step on each of them: no inner product over the whole of v
    or θ, and no test of one, enters it. Such a method runs on a stack of problems as it is."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "name"):
            cls.name = cls.__name__.lower()

    @property
    def inner_batches(self) -> int:
        """How many inner batches a step takes."""
        return 1

    @property
    def outer_batches(self) -> int:
        """How many outer batches a step takes."""
        return 1

    @property
    def period(self) -> int:
        """After how many steps its cost, and the form of its state, repeat."""
        return 1

    @property
    def cost(self) -> Mapping[str, int] | None:
        """The evaluations of `period` steps by kind ("f", "g", "hvp", "xvp"), where a method declares them."""
        return None

    @property
    def inner_map(self) -> InnerMap | None:
        """The inner map, where the method has one in its field `inner`."""
        inner = getattr(self, "inner", None)
        return inner if isinstance(inner, InnerMap) else None

    def theta_steps(self, k: int) -> int:
        """How many steps θ has made after k outer ones, since it stood at its start."""
        inner = self.inner_map
        return k if self.moves_theta or inner is None else k * inner.steps

    def refusal(self, problem: Problem) -> str | None:
        """Why the method cannot solve this problem, or None if it can."""
        return None

    def init(self, oracle: Oracle, point: Pair) -> State:
        """The state before the first step."""
        return {}

    @abstractmethod
    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step from `point`."""

    def settings(self) -> dict[str, Any]:
        """The hyper-parameters, for reports."""
        return {"method": self.name, "settings": repr(self)}


def check_accepted(problem: Problem, method: Method) -> None:
    """Refuse a problem that the method cannot solve."""
    if problem.constraints and not method.constrained:
        raise UnsupportedError(f"{method.name} takes no constraints: use the method bome-qp, or bome.solve")
    if not problem.v.given and not method.chooses:
        raise UnsupportedError(
            f"{method.name} takes θ from g alone, and there is no v: use bome, pbgd, f2sa, bvfsm, meha or penalty"
        )
    reason = method.refusal(problem)
    if reason is not None:
        raise UnsupportedError(f"{method.name} cannot solve this problem: {reason}")
