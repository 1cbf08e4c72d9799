r"""stocBiO: stochastic implicit differentiation by a Neumann series (Ji, Yang, Liang; ICML 2021).

    for k = 0, 1, ...
        1:  θ_{t+1} = θ_t − α ∇_θ g(v_k, θ_t; S_t),   t = 0 .. T−1,   θ_0 = θ_k
        2:  u_0 = ∇_θ f(v_k, θ_T; F),   u_q = (I − η H(v_k, θ_T; S_{T+q−1})) u_{q−1},   q = 1 .. Q
        3:  z = η Σ_{q=0}^{Q} u_q
        4:  h = ∇_v f(v_k, θ_T; F) − B(v_k, θ_T; S_{T+Q}) z
        5:  v_{k+1} = v_k − ξ_v h,   θ_{k+1} = θ_T

| symbol | here | symbol | here |
|---|---|---|---|
| α, T | `inner.lr`, `inner.steps` | S_0 .. S_{T+Q} | `batches.inner`, in this order |
| η, Q | `neumann_lr`, `Q` | F | `batches.outer[0]` |

A step takes T + Q + 1 independent inner batches and 1 outer one. Cost per step: T + Q + 1 evaluations of g, 1 of f, Q
Hessian-vector products and 1 cross product. With `draw="one"` a single batch S_T serves all Hessians and B: T + 1 inner
batches, T + 1 evaluations of g, the rest as before. State: none.

On the full batch z = ηΣ_{q≤Q}(I−ηH)^q f_θ, so the error decays like (1 − ημ)^{Q+1}; η < 1/L is needed, and η = α is the
default.

Where we differ from the paper: all batches have one size, where the paper lets those of the Hessians shrink with q.

Where published code differs (variant `published`): one batch serves all Hessians and B, and the series is
z = η u_Q + Σ_{q=1}^{Q} u_q. The first term is missing and the sum is not multiplied by η: the outer step is about 1/η
times larger. There the momentum of the inner steps also persists over outer steps; here it starts afresh.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from bome._checks import check_choice, check_count, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.linalg import neumann, neumann_published
from bome.core.trees import Pair, sub
from bome.errors import ProblemError
from bome.inner import InnerMap
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import Free, refuse_other_sets
from bome.oracles.autograd import AutogradOracle
from bome.oracles.base import Needs, Oracle
from bome.oracles.linear import Linear
from bome.problem import Problem

Series = Literal["full", "published"]
"""z = η Σ_{q=0}^{Q} u_q, or z = η u_Q + Σ_{q=1}^{Q} u_q as coded."""

Draw = Literal["independent", "one"]
"""A batch for each of Q Hessians and one for B, or a single batch for all of them."""

PUBLISHED: Mapping[str, Any] = {"series": "published", "draw": "one"}
"""The estimate as coded."""


class Estimate(NamedTuple):
    """A stochastic estimate at (v, θ).

    Attributes:
        f: f(v, θ).
        h: the hypergradient f_v − Bz.
        g: ∇_θ g(v, θ) on the batch of B, a by-product.
    """

    f: Tensor
    h: Leaves
    g: Leaves


def estimate(
    oracle: AutogradOracle,
    v: Leaves,
    theta: Leaves,
    inner: Sequence[Any],
    outer: Any,
    eta: float,
    terms: int,
    series: Series,
) -> Estimate:
    """Lines 2 to 4. `inner`: Q batches for the Hessians, then one for B; or one for all.

    len(inner) evaluations of g, 1 of f, Q Hessian-vector products and 1 cross product.
    """
    f = oracle.outer(v, theta, outer)
    maps = _gradient_maps(oracle, v, theta, inner, terms + 1)

    free = Free(oracle.problem, theta)  # without bounds all entries are

    def product(u: Leaves) -> Leaves:
        return free(next(maps).pull(u, "theta").theta)

    z = (neumann if series == "full" else neumann_published)(product, free(f.grad.theta), eta, terms)
    g = next(maps)
    return Estimate(f.value, sub(f.grad.v, g.pull(z, "v").v), g.value)


def _gradient_maps(
    oracle: AutogradOracle, v: Leaves, theta: Leaves, batches: Sequence[Any], count: int
) -> Iterator[Linear]:
    """The gradient map on each batch in turn; a single batch is evaluated once and serves all."""
    if len(batches) == 1:
        g = oracle.gradient_map(v, theta, batches[0])
        yield from (g for _ in range(count))
    else:
        yield from (oracle.gradient_map(v, theta, batch) for batch in batches)


def batches_of_estimate(terms: int, draw: Draw) -> int:
    """How many inner batches an estimate takes."""
    return terms + 1 if draw == "independent" else 1


def check_estimate(terms: int, series: Series, draw: Draw) -> None:
    """Refuse settings of an estimate that cannot work."""
    check_count("Q", terms, least=0)
    check_choice("series", series, Series)
    check_choice("draw", draw, Draw)


def refuse_per_sample(problem: Problem) -> str | None:
    """For methods that keep estimates of all of v from step to step."""
    return "it keeps estimates of all of v, and v has a row per sample" if problem.v.table is not None else None


def neumann_rate(given: float | None, inner: InnerMap) -> float:
    """η: as given, or the step size of the inner map."""
    rate = given if given is not None else getattr(inner, "lr", None)
    if rate is None:
        raise ProblemError(f"{type(inner).__name__} has no step size to take for the Neumann series: give neumann_lr")
    check_positive("neumann_lr (η)", rate)
    return rate


@dataclass(frozen=True)
class StocBiO(Method):
    """Implicit differentiation by a stochastic Neumann series.

    Attributes:
        inner: the inner map and T; each inner step has a batch of its own.
        Q: Hessian-vector products of the series.
        neumann_lr: η; by default the step size of the inner map.
        series: "full" is right; "published" is as coded.
        draw: "independent" batches for each Hessian and for B, or "one" for all of them.
    """

    inner: InnerMap
    Q: int = 3
    neumann_lr: float | None = None
    series: Series = "full"
    draw: Draw = "independent"

    name: ClassVar[str] = "stocbio"
    moves_theta: ClassVar[bool] = False
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    settles = "solution"
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"published": PUBLISHED}

    def __post_init__(self) -> None:
        check_estimate(self.Q, self.series, self.draw)
        neumann_rate(self.neumann_lr, self.inner)

    def refusal(self, problem: Problem) -> str | None:
        """It knows which entries of θ are free in a box."""
        return refuse_other_sets(problem)

    @property
    def inner_batches(self) -> int:
        """One for each inner step, one for each Hessian and one for B."""
        return self.inner.steps + batches_of_estimate(self.Q, self.draw)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": self.inner_batches, "f": 1, "hvp": self.Q, "xvp": 1}

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        v, theta = point
        oracle, T = second_order(oracle), self.inner.steps  # noqa: N806
        eta = neumann_rate(self.neumann_lr, self.inner)
        theta_T = oracle.descend(v, theta, self.inner, batches.inner[:T])  # line 1  # noqa: N806
        e = estimate(oracle, v, theta_T, batches.inner[T:], batches.outer[0], eta, self.Q, self.series)  # lines 2 to 4
        return Step(Pair(e.h, ()), state, Info(e.f), new_theta=theta_T)  # line 5
