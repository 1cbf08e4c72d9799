"""Problems to check methods on, steps on them, and comparisons of what comes out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import SGD

from bome._typing import Leaves, Loss, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, clone
from bome.errors import NonFiniteError
from bome.methods.base import Info, Method, Step
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle, Oracle, OracleName
from bome.problem import Batches, Problem
from bome.runs.plan import build
from bome.stepper import Stepper
from bome.tasks import TASKS, QuadraticInstance, Settings

Make: TypeAlias = Callable[[Settings], Method]
"""Makes a method for the settings of a problem."""


TOYS = ("coreset", "minimax", "lls", "quadratic", "sine")
ORACLES: dict[OracleName, type[Oracle]] = {
    "autograd": AutogradOracle,
    "func": FuncOracle,
    "backward": BackwardOracle,
}
STEPS = 2
"""Outer steps, and inner steps in each of them, unless a check says otherwise."""


def maker(method: Method | type[Method] | Make) -> Make:
    """How to make the method for given settings."""
    if isinstance(method, Method):
        return lambda settings: method
    if isinstance(method, type):
        kind: type[Method] = method
        return lambda settings: build(kind, settings)
    return method


@dataclass(frozen=True)
class Bed:
    """A problem in flat vectors v ∈ R³ and θ ∈ R⁴ whose inner solution and solution are known.

    Attributes:
        outer: f(v, θ, s), with s a shift that stands for data (None is 0).
        inner: g(v, θ, s).
        inner_solution: θ*(v).
        solution: (v*, θ*(v*)).
        penalised: the minimum of f + λ(g − g*), where it is known.
    """

    outer: Loss
    inner: Loss
    inner_solution: Callable[[Tensor], Tensor]
    solution: Pair
    penalised: Callable[[float], Pair] | None


BED_SETTINGS = Settings(steps=100, inner_steps=STEPS, inner_lr=0.5, outer_lr=0.1, theta_lr=0.1)


def _draw(dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((4, 3), (4, 4), (4,), (3,))
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def _quadratic_bed(dtype: torch.dtype) -> Bed:
    """f = ½‖θ − a‖² + ½‖v − b‖², g = ½(θ − Av)ᵀH(θ − Av) with curvatures near 2: few inner steps of ½ suffice."""
    A, axes, a, b = _draw(torch.float64)  # noqa: N806
    q = torch.linalg.qr(axes).Q
    h = q @ torch.diag(torch.tensor([1.8, 1.95, 2.05, 2.2], dtype=torch.float64)) @ q.T
    exact = QuadraticInstance(A, (h + h.T) / 2, a, b)
    cast = QuadraticInstance(*(x.to(dtype) for x in (exact.A, exact.H, exact.a, exact.b)))

    def penalised(lam: float) -> Pair:
        k = lam * exact.H  # stationarity of ½‖θ−a‖² + ½‖v−b‖² + ½(θ−Av)ᵀK(θ−Av)
        top = torch.cat([torch.eye(3, dtype=torch.float64) + A.T @ k @ A, -A.T @ k], 1)
        low = torch.cat([-k @ A, torch.eye(4, dtype=torch.float64) + k], 1)
        both = torch.linalg.solve(torch.cat([top, low]), torch.cat([b, a]))
        return Pair((both[:3],), (both[3:],))

    v, theta = exact.solution()
    return Bed(
        outer=lambda v, theta, s: cast.outer(v, theta if s is None else theta + s),
        inner=lambda v, theta, s: cast.inner(v, theta if s is None else theta + s),
        inner_solution=lambda v: cast.A @ v,
        solution=Pair((v,), (theta,)),
        penalised=penalised,
    )


def _saddle_bed(dtype: torch.dtype) -> Bed:
    """f = ½‖v − b‖² + θᵀAv − ½‖θ − a‖² = −g; θ*(v) = a + Av, and (I + AᵀA)v* = b − Aᵀa."""
    A, _, a, b = (x.to(dtype) for x in _draw(dtype))  # noqa: N806

    def outer(v: Tensor, theta: Tensor, s: Any) -> Tensor:
        theta = theta if s is None else theta + s
        return 0.5 * (v - b).square().sum() + theta @ (A @ v) - 0.5 * (theta - a).square().sum()

    v = torch.linalg.solve(torch.eye(3, dtype=dtype) + A.T @ A, b - A.T @ a).double()
    return Bed(
        outer=outer,
        inner=lambda v, theta, s: -outer(v, theta, s),
        inner_solution=lambda v: a + A @ v,
        solution=Pair((v,), (a.double() + A.double() @ v,)),
        penalised=None,
    )


def first_bed(make: Make, dtype: torch.dtype = torch.float64) -> Bed:
    """The first test bed that the method does not refuse."""
    method, reasons = make(BED_SETTINGS), []
    for bed in (_quadratic_bed(dtype), _saddle_bed(dtype)):
        reason = method.refusal(bed_problem(bed, *start_point(dtype)))
        if reason is None:
            return bed
        reasons.append(reason)
    raise AssertionError(f"it refuses every problem: {'; '.join(reasons)}")


def start_point(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(v, θ) of a run on a test bed."""
    return torch.tensor([0.3, -0.2, 0.1], dtype=dtype), torch.tensor([1.0, 0.5, -0.5, -1.0], dtype=dtype)


def bed_problem(bed: Bed, v: Any, theta: Any, **projections: Any) -> Problem:
    """The bed with variables of any form: their tensors are laid end to end."""
    return Problem(
        outer=lambda v, theta, s: bed.outer(flat(v), flat(theta), s),
        inner=lambda v, theta, s: bed.inner(flat(v), flat(theta), s),
        v=v,
        theta=theta,
        **projections,
    )


def flat(form: Any) -> Tensor:
    """The tensors of a variable of any form, laid end to end."""
    if isinstance(form, Tensor):
        return form.reshape(-1)
    parts = form.parameters() if isinstance(form, nn.Module) else form.values() if isinstance(form, dict) else form
    return torch.cat([x.reshape(-1) for x in parts])


class Case(NamedTuple):
    """A method on a toy problem with an oracle."""

    make: Make
    toy: str
    oracle: OracleName

    def stepper(self, dtype: torch.dtype = torch.float64) -> Stepper:
        """A new stepper at the start of the toy."""
        task = TASKS[self.toy](dtype=dtype)
        rates = {name: 0.1 * getattr(task.settings, name) for name in ("outer_lr", "theta_lr")}  # no run shall diverge
        settings = replace(task.settings, inner_steps=min(STEPS, task.settings.inner_steps), **rates)
        return new_stepper(task.problem, self.make(settings), settings, self.oracle)

    def __str__(self) -> str:
        return f"on {self.toy} with the {self.oracle} oracle"


def cases(make: Make) -> Iterator[Case]:
    """Every toy that the method does not refuse, with every oracle that it can use."""
    for toy in TOYS:
        task = TASKS[toy]()
        method = make(task.settings)
        if method.refusal(task.problem) is None:
            yield from (Case(make, toy, oracle) for oracle in oracles_for(method))


def oracles_for(method: Method) -> list[OracleName]:
    """The oracles that give what a method requires."""
    return [name for name, kind in ORACLES.items() if not method.requires & ~kind.provides]


def new_stepper(problem: Problem, method: Method, settings: Settings, oracle: OracleName = "auto") -> Stepper:
    """A stepper with plain SGD at the step sizes of the settings."""
    outer_opt, inner_opt = SGD(problem.v.leaves, settings.outer_lr), SGD(problem.theta.leaves, settings.theta_lr)
    return Stepper(problem, method, outer_opt, inner_opt, oracle)


def bed_stepper(make: Make, oracle: OracleName = "auto", dtype: torch.dtype = torch.float64) -> Stepper:
    """A new stepper at the start of the method's test bed."""
    return new_stepper(
        bed_problem(first_bed(make, dtype), *start_point(dtype)), make(BED_SETTINGS), BED_SETTINGS, oracle
    )


def batches_for(method: Method, *, outer: Any = None, inner: Any = None) -> Batches:
    """As many batches as a step takes."""
    return Batches(inner=(inner,) * method.inner_batches, outer=(outer,) * method.outer_batches)


def advance(stepper: Stepper, steps: int = STEPS) -> list[Info]:
    """Some steps; fewer if the method diverges, which it may on toys that are none of its kind."""
    infos: list[Info] = []
    try:
        for _ in range(steps):
            infos.append(stepper.step_on(batches_for(stepper.method)))  # noqa: PERF401 - a failure keeps those before it
    except NonFiniteError:
        pass
    return infos


def diverged(stepper: Stepper, steps: int) -> bool:
    """Whether a run of so many steps ended early, or blew up."""
    return stepper.k < steps or any(float(x.abs().max()) > 1e4 for x in variables(stepper))


def raw_step(stepper: Stepper, batches: Batches | None = None, rate: float = 1.0) -> Step:
    """The method's own step, before any optimiser; with `rate` times the step sizes of θ."""
    method, oracle = stepper.method, stepper.oracle
    metric = Metric(stepper.metric.v, tuple(rate * x for x in stepper.metric.theta))
    oracle.begin()
    batch = batches_for(method) if batches is None else batches
    return method.step(oracle, stepper.problem.point, stepper.state, batch, metric)


def variables(stepper: Stepper) -> Leaves:
    """The live tensors of v and θ."""
    return (*stepper.problem.point.v, *stepper.problem.point.theta)


def everything(stepper: Stepper) -> Leaves:
    """Copies of the variables and the state."""
    return clone((*variables(stepper), *tensors(stepper.state)))


def tensors(state: State) -> Leaves:
    """All tensors of a state."""
    return tuple(x for group in state.values() for x in group)


def require(condition: bool, message: str) -> None:
    """An AssertionError with the message, if the condition does not hold."""
    if not condition:
        raise AssertionError(message)


def same(a: Leaves, b: Leaves) -> bool:
    """Whether they are equal bit for bit."""
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def difference(a: Leaves, b: Leaves) -> float:
    """‖a − b‖ relative to ‖b‖; of tensors laid end to end."""
    x, y = flat(list(a)).double(), flat(list(b)).double()
    return float((x - y).norm() / y.norm().clamp(min=1e-30)) if not torch.equal(x, y) else 0.0
