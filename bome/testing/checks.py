"""Batteries of checks for authors of methods and of problems, as scikit-learn's `check_estimator` is for estimators.

    from bome.testing import check_method
    check_method(MyMethod(GradientDescent(lr=0.1, steps=3)))     # one AssertionError that names the check, or nothing

A check of a method is a function of a `Make`: how to make the method for the settings of a problem. `METHOD_CHECKS`
lists them all, so that pytest can run each on its own:

    @pytest.mark.parametrize("check", METHOD_CHECKS)
    def test_my_method(check): run_check(check, MyMethod)

The checks run over every toy problem of `bome.tasks` that the method does not refuse, and over every oracle that gives
what it requires. Where they need more than a toy (several tensors, batches, a known solution) they use a test bed: a
quadratic problem, or for methods that only take min-max problems a quadratic saddle problem.
"""

import ast
import copy
import gc
import math
import re
import tempfile
import typing
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention
from torch.optim import SGD

from bome._typing import Leaves, Loss, State
from bome.core.trees import Pair, clone, dot, sub
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.inner import Adam, GradientDescent
from bome.methods.base import Info, Method, Step
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle, Needs, Oracle, OracleName
from bome.oracles.autograd import connections, second_order_failure
from bome.problem import Batches, Problem
from bome.projections import box
from bome.runs import registry
from bome.stepper import Stepper
from bome.storage import checkpoint
from bome.tasks import TASKS, QuadraticInstance, Settings
from bome.testing.hypergradients import HypergradReport, hold_schedule, hypergradcheck

__all__ = [
    "METHOD_CHECKS",
    "PROBLEM_CHECKS",
    "HypergradReport",
    "Make",
    "check_method",
    "check_problem",
    "hypergradcheck",
    "run_check",
]

Make: TypeAlias = Callable[[Settings], Method]
"""Makes a method for the settings of a problem."""

MethodCheck: TypeAlias = Callable[[Make], None]
ProblemCheck: TypeAlias = Callable[[Problem, Batches], None]

TOYS = ("coreset", "minimax", "lls", "quadratic", "sine")
ORACLES: dict[OracleName, type[Oracle]] = {
    "autograd": AutogradOracle,
    "func": FuncOracle,
    "backward": BackwardOracle,
}
STEPS = 2
"""Outer steps, and inner steps in each of them, unless a check says otherwise."""


def check_method(method: Method | type[Method] | Make) -> None:
    """Run all checks of `METHOD_CHECKS` on a method.

    Args:
        method: a method; or its class, whose fields are filled with the settings of each toy problem as those of a
            registered method are; or a function from `Settings` to a method.

    Raises:
        AssertionError: a check failed; the message names it.
    """
    for check in METHOD_CHECKS:
        run_check(check, method)


def run_check(check: MethodCheck, method: Method | type[Method] | Make) -> None:
    """Run one check on a method; an error of the check names it."""
    make = maker(method)
    name = make(_BED_SETTINGS).name
    try:
        check(make)
    except AssertionError as error:
        raise AssertionError(f"{name} fails {check.__name__}: {error}") from None
    except Exception as error:
        raise AssertionError(f"{name} fails {check.__name__}: {type(error).__name__}: {error}") from error


def maker(method: Method | type[Method] | Make) -> Make:
    """How to make the method for given settings."""
    if isinstance(method, Method):
        return lambda settings: method
    if isinstance(method, type):
        kind: type[Method] = method
        return lambda settings: registry.build(kind, settings)
    return method


# --- problems to check on ---------------------------------------------------------------------------------------------


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


_BED_SETTINGS = Settings(steps=100, inner_steps=STEPS, inner_lr=0.5, outer_lr=0.1, theta_lr=0.1)


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


def _bed(make: Make, dtype: torch.dtype = torch.float64) -> Bed:
    """The first test bed that the method does not refuse."""
    method, reasons = make(_BED_SETTINGS), []
    for bed in (_quadratic_bed(dtype), _saddle_bed(dtype)):
        reason = method.refusal(_problem(bed, *_start(dtype)))
        if reason is None:
            return bed
        reasons.append(reason)
    raise AssertionError(f"it refuses every problem: {'; '.join(reasons)}")


def _start(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.tensor([0.3, -0.2, 0.1], dtype=dtype), torch.tensor([1.0, 0.5, -0.5, -1.0], dtype=dtype)


def _problem(bed: Bed, v: Any, theta: Any, **projections: Any) -> Problem:
    """The bed with variables of any form: their tensors are laid end to end."""
    return Problem(
        outer=lambda v, theta, s: bed.outer(_flat(v), _flat(theta), s),
        inner=lambda v, theta, s: bed.inner(_flat(v), _flat(theta), s),
        v=v,
        theta=theta,
        **projections,
    )


def _flat(form: Any) -> Tensor:
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
        return _stepper(task.problem, self.make(settings), settings, self.oracle)

    def __str__(self) -> str:
        return f"on {self.toy} with the {self.oracle} oracle"


def _cases(make: Make) -> Iterator[Case]:
    """Every toy that the method does not refuse, with every oracle that it can use."""
    for toy in TOYS:
        task = TASKS[toy]()
        method = make(task.settings)
        if method.refusal(task.problem) is None:
            yield from (Case(make, toy, oracle) for oracle in _oracles(method))


def _oracles(method: Method) -> list[OracleName]:
    return [name for name, kind in ORACLES.items() if not method.requires & ~kind.provides]


def _stepper(problem: Problem, method: Method, settings: Settings, oracle: OracleName = "auto") -> Stepper:
    outer_opt, inner_opt = SGD(problem.v.leaves, settings.outer_lr), SGD(problem.theta.leaves, settings.theta_lr)
    return Stepper(problem, method, outer_opt, inner_opt, oracle)


def _bed_stepper(make: Make, oracle: OracleName = "auto", dtype: torch.dtype = torch.float64) -> Stepper:
    return _stepper(_problem(_bed(make, dtype), *_start(dtype)), make(_BED_SETTINGS), _BED_SETTINGS, oracle)


def _batches(method: Method, inner: Any = None, outer: Any = None) -> Batches:
    """As many batches as a step takes."""
    return Batches((inner,) * method.inner_batches, (outer,) * method.outer_batches)


def _advance(stepper: Stepper, steps: int = STEPS) -> list[Info]:
    """Some steps; fewer if the method diverges, which it may on toys that are none of its kind."""
    infos: list[Info] = []
    try:
        for _ in range(steps):
            infos.append(stepper.step_on(_batches(stepper.method)))  # noqa: PERF401 - a failure keeps those before it
    except NonFiniteError:
        pass
    return infos


def _diverged(stepper: Stepper, steps: int) -> bool:
    """Whether a run of so many steps ended early, or blew up."""
    return stepper.k < steps or any(float(x.abs().max()) > 1e4 for x in _variables(stepper))


def _raw_step(stepper: Stepper, batches: Batches | None = None) -> Step:
    """The method's own step, before any optimiser."""
    method, oracle = stepper.method, stepper.oracle
    oracle.begin()
    wanted = _batches(method) if batches is None else batches
    return method.step(oracle, stepper.problem.point, stepper.state, wanted, stepper.metric)


def _variables(stepper: Stepper) -> Leaves:
    return (*stepper.problem.point.v, *stepper.problem.point.theta)


def _everything(stepper: Stepper) -> Leaves:
    """Copies of the variables and the state."""
    return clone((*_variables(stepper), *_tensors(stepper.state)))


def _tensors(state: State) -> Leaves:
    return tuple(x for group in state.values() for x in group)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _same(a: Leaves, b: Leaves) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _difference(a: Leaves, b: Leaves) -> float:
    """‖a − b‖ relative to ‖b‖; of tensors laid end to end."""
    x, y = _flat(list(a)).double(), _flat(list(b)).double()
    return float((x - y).norm() / y.norm().clamp(min=1e-30)) if not torch.equal(x, y) else 0.0


# --- what a method is -------------------------------------------------------------------------------------------------


def check_is_a_frozen_record(make: Make) -> None:
    """A method is a frozen dataclass: nothing changes its hyper-parameters."""
    method = make(_BED_SETTINGS)
    _require(is_dataclass(method), "it is not a dataclass")
    try:
        setattr(method, next((f.name for f in fields(method)), "anything"), None)  # type: ignore[arg-type]
    except FrozenInstanceError:
        return
    raise AssertionError("its fields can be changed: write @dataclass(frozen=True)")


def check_equality_and_hash(make: Make) -> None:
    """Two methods with the same hyper-parameters are equal and have the same hash."""
    one, other = make(_BED_SETTINGS), make(_BED_SETTINGS)
    _require(one == other, "two with the same hyper-parameters differ")
    _require(hash(one) == hash(other), "two with the same hyper-parameters have different hashes")


def check_repr_can_be_read_back(make: Make) -> None:
    """`repr` is an expression that makes the same method: it stands in reports and run directories."""
    method = make(_BED_SETTINGS)
    known = {kind.__name__: kind for kind in (type(method), GradientDescent, Adam)}
    try:
        back = _read(ast.parse(repr(method), mode="eval").body, known)
    except (KeyError, SyntaxError, ValueError) as error:
        raise AssertionError(f"{method!r} cannot be read back: {error}") from None
    _require(back == method, f"{method!r} reads back as {back!r}")


def _read(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and of calls of known classes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_read(x, known) for x in node.args]
        return known[node.func.id](*arguments, **{str(k.arg): _read(k.value, known) for k in node.keywords})
    if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
        return float(node.id)
    return ast.literal_eval(node)


def check_can_be_copied(make: Make) -> None:
    """A deep copy is equal to the original."""
    method = make(_BED_SETTINGS)
    _require(copy.deepcopy(method) == method, "a deep copy differs")


def check_declares_itself(make: Make) -> None:
    """Name, needs, promise and number of batches are of the right kind."""
    method = make(_BED_SETTINGS)
    _require(re.fullmatch(r"[a-z][a-z0-9+-]*", method.name) is not None, f"name {method.name!r} is no registry name")
    _require(Needs.FIRST_ORDER in method.requires, "requires does not include FIRST_ORDER")
    _require(method.settles in ("solution", "penalty", "elsewhere"), f"settles is {method.settles!r}")
    for what in ("inner_batches", "outer_batches", "period"):
        number = getattr(method, what)
        _require(isinstance(number, int) and number >= 1, f"{what} is {number!r}, not a whole number of at least 1")
    known = {f.name for f in fields(method)}  # type: ignore[arg-type]
    for name, values in method.variants.items():
        _require(set(values) <= known, f"variant {name!r} sets {sorted(set(values) - known)}, which are no fields")


def check_refuses_nonsense(make: Make) -> None:
    """NaN for a number and an unknown word for a choice are refused by a ProblemError when the method is made."""
    method = make(_BED_SETTINGS)
    hints = typing.get_type_hints(type(method))
    for field in fields(method):  # type: ignore[arg-type]
        kinds = (hints[field.name], *typing.get_args(hints[field.name]))
        choice = any(typing.get_origin(kind) is Literal for kind in kinds)
        if not choice and float not in kinds and int not in kinds:
            continue
        bad: Any = "nonsense" if choice else math.nan
        try:
            made = replace(method, **{field.name: bad})  # type: ignore[type-var]
        except ProblemError:
            continue
        raise AssertionError(f"{field.name}={bad!r} is accepted: {made!r}")


def check_variants_step(make: Make) -> None:
    """Every named variant can be made and steps, twice the same."""
    method = make(_BED_SETTINGS)
    run = {f.name: getattr(_BED_SETTINGS, f.name, None) for f in fields(method)}  # type: ignore[arg-type]
    for name, values in method.variants.items():
        missing = {key: value for key, value in run.items() if value is not None and getattr(method, key) is None}
        variant = replace(method, **{**missing, **values})  # type: ignore[type-var]
        ends = []
        for _ in range(2):
            stepper = _bed_stepper(maker(variant))
            _advance(stepper)
            ends.append(_everything(stepper))
        _require(_same(*ends), f"variant {name!r} gives different results in two runs")


# --- what a step returns ----------------------------------------------------------------------------------------------


def check_direction_has_the_form_of_the_variables(make: Make) -> None:
    """A tensor without graph for each tensor of v; for θ a direction, or a new θ and an empty direction, or neither."""
    for case in _cases(make):
        stepper = case.stepper()
        point, step = stepper.problem.point, _raw_step(stepper)
        _require(isinstance(step, Step) and isinstance(step.direction, Pair), f"it returns no Step of a Pair {case}")
        _like(step.direction.v, point.v, f"the direction of v {case}")
        if step.new_theta is None:
            _like(step.direction.theta, point.theta, f"the direction of θ {case}")
        else:
            _require(step.direction.theta == (), f"it returns both a new θ and a direction for θ {case}")
            _like(step.new_theta, point.theta, f"the new θ {case}")


def _like(leaves: Leaves, pattern: Leaves, what: str) -> None:
    _require(isinstance(leaves, tuple) and len(leaves) == len(pattern), f"{what} is not a tuple of {len(pattern)}")
    for x, y in zip(leaves, pattern, strict=True):
        _require(x.shape == y.shape, f"{what} has shape {tuple(x.shape)} instead of {tuple(y.shape)}")
        _require(x.dtype == y.dtype, f"{what} has dtype {x.dtype} instead of {y.dtype}")
        _require(not x.requires_grad, f"{what} carries a graph")


def check_info_is_scalars_without_graph(make: Make) -> None:
    """What a step measured are 0-d tensors without graph, f among them; f, g, q and λ are finite."""
    for case in _cases(make):
        for info in _advance(case.stepper()):
            _require(isinstance(info, Info), f"info is no Info {case}")
            for name, value in info._asdict().items():
                if value is None:
                    _require(name != "f", f"f is missing {case}")
                    continue
                _require(isinstance(value, Tensor) and value.dim() == 0, f"{name} is no 0-d tensor {case}")
                _require(not value.requires_grad, f"{name} carries a graph {case}")
                if name in ("f", "g", "q", "lam"):
                    _require(math.isfinite(float(value)), f"{name} is {float(value)} {case}")


def check_state_keeps_its_form(make: Make) -> None:
    """State is a dict of tuples of tensors without graph; its names, shapes and dtypes repeat with the period.

    Before the first step a group may be empty.
    """
    for case in _cases(make):
        stepper = case.stepper()
        forms = [_form(stepper.state, str(case))]
        for _ in range(2 * stepper.method.period + 1):
            if not _advance(stepper, 1):
                break
            forms.append(_form(stepper.state, str(case)))
            _require(forms[-1].keys() == forms[0].keys(), f"its names change from step to step {case}")
        for name, first in forms[0].items():
            then = forms[min(stepper.method.period, len(forms) - 1)][name]
            _require(not first or first == then, f"{name!r} changes its form {case}")
        for now, later in zip(forms[1:], forms[1 + stepper.method.period :], strict=False):
            _require(now == later, f"its form does not repeat with the period {stepper.method.period} {case}")


def _form(state: State, case: str) -> dict[str, list[tuple[torch.Size, torch.dtype]]]:
    _require(isinstance(state, dict) and all(isinstance(name, str) for name in state), f"it is no dict by name {case}")
    for name, group in state.items():
        fine = isinstance(group, tuple) and all(isinstance(x, Tensor) for x in group)
        _require(fine, f"{name!r} is no tuple of tensors {case}")
        _require(not any(x.requires_grad for x in group), f"{name!r} carries a graph {case}")
    return {name: [(x.shape, x.dtype) for x in group] for name, group in state.items()}


def check_state_has_memory_of_its_own(make: Make) -> None:
    """State shares no memory with the variables, which optimisers write to, nor with the direction in their `.grad`."""
    for case in _cases(make):
        stepper = case.stepper()
        live = {x.untyped_storage().data_ptr(): "a variable" for x in _variables(stepper)}
        _advance(stepper, 1)
        step = _raw_step(stepper)
        live |= {x.untyped_storage().data_ptr(): "the direction" for x in step.direction.v + step.direction.theta}
        for state in (stepper.method.init(stepper.oracle, stepper.problem.point), step.state):
            for name, group in state.items():
                for x in group:
                    other = live.get(x.untyped_storage().data_ptr())
                    _require(other is None, f"state {name!r} shares memory with {other} {case}")


# --- that a step is pure ----------------------------------------------------------------------------------------------


def check_two_runs_are_equal(make: Make) -> None:
    """Two runs from the same start are equal bit for bit."""
    for case in _cases(make):
        one, other = case.stepper(), case.stepper()
        _advance(one), _advance(other)
        _require(_same(_everything(one), _everything(other)), f"two runs differ {case}")


def check_a_step_can_be_repeated(make: Make) -> None:
    """`step` depends on its arguments alone: called twice it returns the same."""
    for case in _cases(make):
        stepper = case.stepper()
        _advance(stepper, 1)
        one, other = _raw_step(stepper), _raw_step(stepper)
        for a, b in ((one, other),):
            _require(_same(a.direction.v, b.direction.v), f"the second call gives another direction of v {case}")
            _require(_same(a.direction.theta, b.direction.theta), f"... another direction of θ {case}")
            _require(_same(_tensors(a.state), _tensors(b.state)), f"... another state {case}")
            _require(_same(a.new_theta or (), b.new_theta or ()), f"... another new θ {case}")


def check_arguments_are_left_alone(make: Make) -> None:
    """A step leaves point, state and batches as they were, values and objects."""
    for case in _cases(make):
        stepper = case.stepper()
        _advance(stepper, 1)
        _untouched(stepper, str(case))
    for oracle in _oracles(make(_BED_SETTINGS)):
        stepper = _bed_stepper(make, oracle)
        _advance(stepper, 1)
        _untouched(stepper, f"with data and the {oracle} oracle")


def _untouched(stepper: Stepper, case: str) -> None:
    method = stepper.method
    batches = Batches(
        tuple(torch.full((), 0.01 * i, dtype=torch.float64) for i in range(method.inner_batches)),
        tuple(torch.full((), 0.02 * i, dtype=torch.float64) for i in range(method.outer_batches)),
    )
    groups = {**stepper.state, "the variables": _variables(stepper), "the batches": (*batches.inner, *batches.outer)}
    before = {name: clone(group) for name, group in groups.items()}
    state, same_state = stepper.state, dict(stepper.state)
    _raw_step(stepper, batches)
    for name, group in groups.items():
        _require(_same(group, before[name]), f"a step writes to {name} {case}")
    _require(state.keys() == same_state.keys(), f"a step adds to the state it is given {case}")
    _require(all(state[name] is same_state[name] for name in state), f"a step replaces groups of its state {case}")


def check_live_tensors_stay_clean(make: Make) -> None:
    """After a step the live tensors have no `.grad`, and `requires_grad` is as it was."""
    for case in _cases(make):
        stepper = case.stepper()
        leaves = stepper.problem.v.leaves + stepper.problem.theta.leaves
        before = [x.requires_grad for x in leaves]
        _advance(stepper)
        _require(all(x.grad is None for x in leaves), f"a step leaves something in .grad {case}")
        _require([x.requires_grad for x in leaves] == before, f"a step changes requires_grad {case}")


def check_random_numbers_are_left_alone(make: Make) -> None:
    """A step on a problem without randomness draws no random numbers."""
    for case in _cases(make):
        stepper = case.stepper()
        before = torch.get_rng_state()
        _advance(stepper)
        _require(torch.equal(before, torch.get_rng_state()), f"a step draws random numbers {case}")


def check_gradient_mode_does_not_matter(make: Make) -> None:
    """A step gives the same under `torch.no_grad()`."""
    for case in _cases(make):
        one, other = case.stepper(), case.stepper()
        _advance(one)
        with torch.no_grad():
            _advance(other)
        _require(_same(_everything(one), _everything(other)), f"torch.no_grad() changes the result {case}")


def check_graphs_are_freed(make: Make) -> None:
    """When a step returns, no graph of it is left; and the number of live tensors does not grow over steps."""
    stepper = _bed_stepper(make, "autograd")
    period = stepper.method.period
    _advance(stepper, 1 + period)
    saved: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(x: Tensor) -> _Saved:
        kept = _Saved(x)
        saved.add(kept)
        return kept

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        stepper.step_on(_batches(stepper.method))
    _require(not saved, f"{len(saved)} tensors of the graph of a step are still held after it")
    gc.freeze()  # leaves out of sight what is there already
    try:
        _advance(stepper, period)
        before = _live_tensors()
        _advance(stepper, 2 * period)
        grown = _live_tensors() - before
    finally:
        gc.unfreeze()
    _require(grown <= 0, f"{grown} more tensors are alive after {2 * period} steps")


class _Saved:
    """A tensor held by a graph."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(x), Tensor) for x in gc.get_objects())


# --- that it can be stopped, resumed, and run in every precision ------------------------------------------------------


def check_resuming_changes_nothing(make: Make) -> None:
    """A run that is saved to a checkpoint, loaded and continued equals one that was not interrupted, bit for bit."""
    runs = {str(case): case.stepper() for case in _cases(make)}
    for stepper in runs.values():
        _advance(stepper)
    saved = {name: {"variables": _variables(run), "state": run.state, "k": run.k} for name, run in runs.items()}
    with tempfile.TemporaryDirectory() as folder:
        loaded = checkpoint.load(checkpoint.save(Path(folder), STEPS, saved)).state
    for case in _cases(make):
        first, second, held = runs[str(case)], case.stepper(), loaded[str(case)]
        _require(_form(held["state"], "") == _form(first.state, ""), f"a checkpoint changes the form of state {case}")
        for live, value in zip(_variables(second), held["variables"], strict=True):
            live.copy_(value)
        second.state, second.k = held["state"], held["k"]
        _advance(first), _advance(second)
        _require(_same(_everything(second), _everything(first)), f"a resumed run ends elsewhere {case}")


def check_precisions(make: Make) -> None:
    """Float32 and float64 keep their dtypes and agree; numbers that count or weigh may be float64 in both."""
    for case in _cases(make):
        single, double = case.stepper(torch.float32), case.stepper(torch.float64)
        _advance(single), _advance(double)
        for stepper, dtype in ((single, torch.float32), (double, torch.float64)):
            step = _raw_step(stepper)
            for leaves in (_variables(stepper), step.direction.v, step.direction.theta, step.new_theta or ()):
                _require(all(x.dtype == dtype for x in leaves), f"{dtype} is not kept {case}")
            for name, group in step.state.items():
                fine = all(x.dtype == dtype or x.dim() == 0 for x in group)
                _require(fine, f"state {name!r} is not {dtype} {case}")
        error = _difference(_variables(single), _variables(double))
        _require(
            error <= 1e-3 or _diverged(double, STEPS),
            f"float32 differs from float64 by {error:.1e} after {STEPS} steps {case}",
        )


# --- what it costs ----------------------------------------------------------------------------------------------------


def check_cost_is_the_same_in_every_period(make: Make) -> None:
    """The evaluations of a step depend on the settings alone, on every problem and oracle; and are as declared."""
    found: dict[tuple[str, int], Counter[str]] = {}
    for case in _cases(make):
        stepper = case.stepper()
        method = stepper.method
        _advance(stepper, method.period)  # the first may also set up
        costs = []
        for _ in range(2):
            before = stepper.counts.copy()
            _advance(stepper, method.period)
            costs.append(stepper.counts - before)
        if _diverged(stepper, 3 * method.period):
            continue
        _require(costs[0] == costs[1], f"one period costs {dict(costs[0])}, the next {dict(costs[1])} {case}")
        key = (repr(type(method)), getattr(method.inner_map, "steps", 0))
        known = found.setdefault(key, costs[0])
        _require(costs[0] == known, f"{dict(costs[0])} evaluations here, {dict(known)} elsewhere {case}")
        if method.cost is not None:
            declared = Counter({kind: n for kind, n in method.cost.items() if n})
            _require(costs[0] == declared, f"{dict(costs[0])} evaluations, declared are {dict(declared)} {case}")


# --- oracles, and what they cannot give -------------------------------------------------------------------------------


def check_oracles_agree(make: Make) -> None:
    """All oracles that it can use lead to the same point, to 1e-9 in float64."""
    ends: dict[str, tuple[Case, Leaves]] = {}
    for case in _cases(make):
        stepper = case.stepper()
        _advance(stepper)
        first, end = ends.setdefault(case.toy, (case, _everything(stepper)))
        error = _difference(_everything(stepper), end)
        fine = error <= 1e-9 or _diverged(stepper, STEPS)
        _require(fine, f"{error:.1e} between {case} and {first.oracle}")


def check_a_poor_oracle_is_refused(make: Make) -> None:
    """An oracle that cannot give what it requires is refused at once, by an error that names both."""
    method = make(_BED_SETTINGS)
    for name, kind in ORACLES.items():
        if name not in _oracles(method):
            try:
                _bed_stepper(make, name)
            except UnsupportedError as error:
                named = method.name in str(error) and kind.__name__ in str(error)
                _require(named, f"the message does not name method and oracle: {error}")
            else:
                raise AssertionError(f"{kind.__name__} is not refused although it cannot give {method.requires}")


def check_fused_attention(make: Make) -> None:
    """A model with fused attention, which has no second derivatives, is refused before the first step, or steps."""
    _check_model(make, _Attention())


def check_compiled_module(make: Make) -> None:
    """A compiled module, which has no second derivatives, is refused before the first step, or steps."""
    torch.compiler.reset()  # modules of earlier checks would count against the limit of recompilations
    net: Any = torch.compile(nn.Linear(4, 4), backend="aot_eager")
    _check_model(make, net)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        q = self.project(x)[None, None]
        return scaled_dot_product_attention(q, q, q)[0, 0]


def _check_model(make: Make, net: nn.Module) -> None:
    method = make(_BED_SETTINGS)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, generator=generator)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))

    def outer(v: Tensor, net: Any, batch: Any) -> Tensor:
        miss: Tensor = (net(x) - 1).square().mean() + v.square().sum()
        return miss

    def inner(v: Tensor, net: Any, batch: Any) -> Tensor:
        miss: Tensor = (net(x) - v).square().mean()
        return miss

    problem = Problem(outer, inner, torch.zeros(4), net)
    if method.refusal(problem) is not None:
        problem = Problem(lambda v, net, batch: -inner(v, net, batch), inner, torch.zeros(4), net)
    if method.refusal(problem) is not None:
        return
    stepper = _stepper(problem, method, _BED_SETTINGS)
    before = _everything(stepper)
    try:
        stepper.step_on(_batches(method))
    except UnsupportedError as error:
        _require(bool(method.requires & (Needs.HVP | Needs.UNROLL)), f"refused although it is first-order: {error}")
        _require(method.name in str(error) and "\n" not in str(error), f"no clear message in one line: {error}")
        _require(_same(_everything(stepper), before), "the refused step changed something")
    else:
        first_order = not method.requires & (Needs.HVP | Needs.UNROLL)
        _require(first_order, f"it requires {method.requires}, which the model cannot give, but is not refused")
        _require(all(bool(x.isfinite().all()) for x in _variables(stepper)), "the step is not finite")


# --- difficult points -------------------------------------------------------------------------------------------------


def check_nan_is_reported_and_undone(make: Make) -> None:
    """NaN in a loss raises NonFiniteError, and variables, state and gradients are as they were before the step."""
    for oracle in _oracles(make(_BED_SETTINGS)):
        for which in ("inner", "outer"):
            stepper = _bed_stepper(make, oracle)
            _advance(stepper, 2)
            before, state = _everything(stepper), stepper.state
            bad = {which: torch.tensor(math.nan, dtype=torch.float64)}
            try:
                stepper.step_on(_batches(stepper.method, **bad))
            except NonFiniteError:
                _require(_same(_everything(stepper), before), f"NaN in the {which} loss leaves something changed")
                _require(stepper.state is state and stepper.k == 2, f"NaN in the {which} loss is counted as a step")
                leaves = stepper.problem.v.leaves + stepper.problem.theta.leaves
                _require(all(x.grad is None for x in leaves), "NaN leaves something in .grad")
            else:
                never = which == "outer" and not stepper.counts["f"]
                _require(never, f"NaN in the {which} loss is not noticed (oracle {oracle})")


def check_outer_loss_without_gradient(make: Make) -> None:
    """Where f is flat (for min-max problems: at the saddle point) the step is finite."""
    bed = _bed(make)
    v, theta = _start(torch.float64)
    if bed.penalised is not None:
        flat = replace(bed, outer=lambda v, theta, s: 0 * (v.sum() + theta.sum()))
    else:
        flat, v, theta = bed, bed.solution.v[0].clone(), bed.solution.theta[0].clone()
    _check_finite(make, _problem(flat, v, theta), "where f is flat")


def check_inner_solution_as_start(make: Make) -> None:
    """At θ = θ*(v), where g_θ = 0 and all of q̂ vanishes, the step is finite."""
    bed, (v, _) = _bed(make), _start(torch.float64)
    _check_finite(make, _problem(bed, v, bed.inner_solution(v)), "at θ*(v)")


def _check_finite(make: Make, problem: Problem, where: str) -> None:
    for oracle in _oracles(make(_BED_SETTINGS)):
        stepper = _stepper(problem, make(_BED_SETTINGS), _BED_SETTINGS, oracle)
        _advance(stepper)
        _require(not _diverged(stepper, STEPS), f"{where} its steps are not finite with the {oracle} oracle")


def check_projections_hold(make: Make) -> None:
    """With boxes for v and θ all iterates stay inside."""
    bed = _bed(make)
    for oracle in _oracles(make(_BED_SETTINGS)):
        v, theta = _start(torch.float64)
        problem = _problem(bed, v, theta.clamp(-0.4, 0.4), project_v=box(-0.31, 0.31), project_theta=box(-0.4, 0.4))
        stepper = _stepper(problem, make(_BED_SETTINGS), _BED_SETTINGS, oracle)
        for _ in range(STEPS):
            _advance(stepper, 1)
            inside = bool((problem.point.v[0].abs() <= 0.31).all() and (problem.point.theta[0].abs() <= 0.4).all())
            _require(inside, f"an iterate lies outside its box (oracle {oracle})")


def check_wrong_number_of_batches_is_refused(make: Make) -> None:
    """A step with one batch too many is refused."""
    stepper = _bed_stepper(make)
    batches = _batches(stepper.method)
    for more in (Batches((*batches.inner, None), batches.outer), Batches(batches.inner, (*batches.outer, None))):
        try:
            stepper.step_on(more)
        except ProblemError:
            continue
        raise AssertionError("a step accepts more batches than the method declares")


# --- the form of the variables ----------------------------------------------------------------------------------------


def check_form_of_variables_does_not_matter(make: Make) -> None:
    """Tensors in a list, a dict or a module give the same as one tensor of all entries."""
    bed, (v, theta) = _bed(make), _start(torch.float64)
    forms: dict[str, Callable[[], tuple[Any, Any]]] = {
        "lists": lambda: (list(torch.split(v.clone(), [1, 2])), list(torch.split(theta.clone(), [3, 1]))),
        "dicts": lambda: ({"a": v[:2].clone(), "b": v[2:].clone()}, {"w": theta[:2].clone(), "z": theta[2:].clone()}),
        "modules": lambda: (_module(v[:1], v[1:]), _module(theta[:2].reshape(2, 1), theta[2:])),
    }
    for oracle in _oracles(make(_BED_SETTINGS)):
        whole = _bed_stepper(make, oracle)
        _advance(whole)
        for name, form in forms.items():
            stepper = _stepper(_problem(bed, *form()), make(_BED_SETTINGS), _BED_SETTINGS, oracle)
            _advance(stepper)
            for role, parts, one in (
                ("v", stepper.problem.point.v, whole.problem.point.v),
                ("θ", stepper.problem.point.theta, whole.problem.point.theta),
            ):
                error = _difference(parts, one)
                _require(error <= 1e-9, f"with {name} {role} differs by {error:.1e} (oracle {oracle})")


def _module(*tensors: Tensor) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(x.clone()) for x in tensors)


# --- where it goes ----------------------------------------------------------------------------------------------------

CONVERGENCE_STEPS = 200
NEAR = 0.05
"""A run has converged if this share of the initial distance is left."""


def check_settles_where_it_says(make: Make) -> None:
    """With decreasing steps it ends where it promises: at the solution, or at the minimum of f + λ(g − g*).

    The test bed has curvatures near 2, α = ½, so that T = 3 inner steps are as good as exact; ξ_v = 0.1 and
    ξ_θ = 0.1 fall like 1/k from step 50 on, so that a schedule of its own is
    held constant. A method that settles "elsewhere" must stay finite.
    """
    settings = replace(_BED_SETTINGS, inner_steps=3, steps=CONVERGENCE_STEPS)
    bed, method = _bed(make), hold_schedule(make(settings))
    stepper = _stepper(_problem(bed, *_start(torch.float64)), method, settings)
    start, info = stepper.problem.point, Info(torch.zeros(()))
    start = Pair(clone(start.v), clone(start.theta))
    for k in range(CONVERGENCE_STEPS if method.settles != "elsewhere" else 20):
        for optimiser, rate in ((stepper.outer_opt, settings.outer_lr), (stepper.inner_opt, settings.theta_lr)):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, 50 / (k + 1))
        info = stepper.step_on(_batches(method))
    if method.settles == "elsewhere":
        return
    goal = bed.solution
    if method.settles == "penalty" and bed.penalised is not None:
        _require(info.lam is not None, "it settles at a penalised minimum but does not report λ")
        goal = bed.penalised(float(typing.cast(Tensor, info.lam)))
    left = _distance(stepper.problem.point, goal) / _distance(start, goal)
    _require(left <= NEAR, f"{left:.1%} of the way to {method.settles} is left after {CONVERGENCE_STEPS} steps")


def _distance(a: Pair, b: Pair) -> float:
    d = sub(a.v, b.v) + sub(a.theta, b.theta)
    return math.sqrt(float(dot(d, d)))


METHOD_CHECKS: tuple[MethodCheck, ...] = (
    check_is_a_frozen_record,
    check_equality_and_hash,
    check_repr_can_be_read_back,
    check_can_be_copied,
    check_declares_itself,
    check_refuses_nonsense,
    check_variants_step,
    check_direction_has_the_form_of_the_variables,
    check_info_is_scalars_without_graph,
    check_state_keeps_its_form,
    check_state_has_memory_of_its_own,
    check_two_runs_are_equal,
    check_a_step_can_be_repeated,
    check_arguments_are_left_alone,
    check_live_tensors_stay_clean,
    check_random_numbers_are_left_alone,
    check_gradient_mode_does_not_matter,
    check_graphs_are_freed,
    check_resuming_changes_nothing,
    check_precisions,
    check_cost_is_the_same_in_every_period,
    check_oracles_agree,
    check_a_poor_oracle_is_refused,
    check_fused_attention,
    check_compiled_module,
    check_nan_is_reported_and_undone,
    check_outer_loss_without_gradient,
    check_inner_solution_as_start,
    check_projections_hold,
    check_wrong_number_of_batches_is_refused,
    check_form_of_variables_does_not_matter,
    check_settles_where_it_says,
)
"""All checks of a method, the quick ones first."""


# --- problems ---------------------------------------------------------------------------------------------------------


def check_problem(problem: Problem, batches: Batches | None = None) -> None:
    """Run all checks of `PROBLEM_CHECKS` on a problem; it is left as it was.

    Args:
        problem: the two losses and their variables. Gradients are compared with finite differences in float64 only.
        batches: one inner and one outer batch, where the losses need data.

    Raises:
        AssertionError: a check failed; the message names it.
    """
    given = Batches() if batches is None else batches
    for check in PROBLEM_CHECKS:
        try:
            check(problem, given)
        except AssertionError as error:
            raise AssertionError(f"the problem fails {check.__name__}: {error}") from None


def check_losses_are_finite(problem: Problem, batches: Batches) -> None:
    """Both losses and their gradients are finite at the start."""
    for which, evaluation in _evaluations(problem, batches).items():
        fine = bool(evaluation[0].isfinite()) and all(bool(x.isfinite().all()) for x in evaluation[1])
        _require(fine, f"the {which} loss or its gradient is not finite at the start")


def check_losses_are_functions(problem: Problem, batches: Batches) -> None:
    """Evaluated twice with the same random numbers, the losses give the same."""
    one, other = _evaluations(problem, batches), _evaluations(problem, batches)
    for which in one:
        _require(_same((one[which][0],), (other[which][0],)), f"two evaluations of the {which} loss differ")
        _require(_same(one[which][1], other[which][1]), f"two gradients of the {which} loss differ")


def check_losses_write_to_nothing(problem: Problem, batches: Batches) -> None:
    """The losses leave variables and batches as they are."""
    tensors = [x for x in _leaves_of((batches.inner, batches.outer)) if isinstance(x, Tensor)]
    held = (*problem.point.v, *problem.point.theta, *tensors)
    before = clone(held)
    _evaluations(problem, batches)
    _require(_same(held, before), "a loss writes to a variable or a batch")


def check_variables_matter(problem: Problem, batches: Batches) -> None:
    """Gradients flow from g to θ, from f to θ, and from g to v."""
    links = connections(problem, batches)
    for loss, role in (("g", "theta"), ("f", "theta"), ("g", "v")):
        _require((loss, role) in links, f"no gradient flows from {loss} to {role}: the two levels are not coupled")


def check_gradients_are_derivatives(problem: Problem, batches: Batches) -> None:
    """In float64: along a random direction, the gradients agree with finite differences of the losses, to 1e-5."""
    point = problem.point
    if any(x.dtype != torch.float64 for x in point.v + point.theta):
        return
    oracle, generator = _quiet(problem), torch.Generator().manual_seed(0)
    rows, local = problem.localise(batches)
    v = tuple(x if rows is None else x[rows] for x in point.v)
    way = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in v + point.theta]
    for which, evaluate, batch in (("f", oracle.outer, local.outer[0]), ("g", oracle.inner, local.inner[0])):
        with torch.random.fork_rng():
            seed = torch.get_rng_state()

            def along(t: float, evaluate: Any = evaluate, batch: Any = batch, seed: Tensor = seed) -> Any:
                torch.set_rng_state(seed)  # the same dropout masks
                moved = [x + t * w for x, w in zip(v + point.theta, way, strict=True)]
                return evaluate(tuple(moved[: len(v)]), tuple(moved[len(v) :]), batch)

            h = 1e-5
            numeric = float(along(h).value - along(-h).value) / (2 * h)
            grad = along(0.0).grad
        exact = float(dot(grad.v + grad.theta, tuple(way)))
        size = max(abs(exact), abs(numeric), 1e-3 * math.sqrt(float(dot(grad.v + grad.theta, grad.v + grad.theta))))
        _require(
            abs(numeric - exact) <= 1e-5 * max(size, 1e-3),
            f"the derivative of {which} along a line is {numeric:.6g}, its gradient says {exact:.6g}",
        )


def check_oracles_give_the_same(problem: Problem, batches: Batches) -> None:
    """`BackwardOracle` finds the gradients that `AutogradOracle` finds."""
    one = _evaluations(problem, batches)
    other = _evaluations(problem, batches, BackwardOracle)
    tolerance = 1e-9 if all(x.dtype == torch.float64 for x in problem.point.theta) else 1e-3
    for which in one:
        error = _difference(other[which][1], one[which][1])
        _require(error <= tolerance, f"the oracles differ by {error:.1e} in the gradient of the {which} loss")


PROBLEM_CHECKS: tuple[ProblemCheck, ...] = (
    check_losses_are_finite,
    check_losses_are_functions,
    check_losses_write_to_nothing,
    check_variables_matter,
    check_gradients_are_derivatives,
    check_oracles_give_the_same,
)
"""All checks of a problem."""


def second_order_possible(problem: Problem, batches: Batches | None = None) -> bool:
    """Whether the inner loss can be differentiated twice, so that second-order methods can solve the problem."""
    return second_order_failure(problem, Batches() if batches is None else batches) is None


def _quiet(problem: Problem, kind: type[Oracle] = AutogradOracle) -> Oracle:
    """An oracle that leaves running statistics as they are."""
    oracle = kind(problem)
    oracle._settled = True
    return oracle


def _evaluations(
    problem: Problem, batches: Batches, kind: type[Oracle] = AutogradOracle
) -> dict[str, tuple[Tensor, Leaves]]:
    """Value and gradient of both losses at the start; random generators are put back."""
    oracle = _quiet(problem, kind)
    rows, local = problem.localise(batches)
    v, theta = tuple(x if rows is None else x[rows] for x in problem.point.v), problem.point.theta
    with torch.random.fork_rng():
        f, g = oracle.outer(v, theta, local.outer[0]), oracle.inner(v, theta, local.inner[0])
    return {"outer": (f.value, f.grad.v + f.grad.theta), "inner": (g.value, g.grad.v + g.grad.theta)}


def _leaves_of(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves_of(item)
    else:
        yield tree
