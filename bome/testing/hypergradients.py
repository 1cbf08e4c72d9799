r"""Is a method's v-direction the hypergradient? As `torch.autograd.gradcheck` asks of a derivative.

The hypergradient is the derivative of F(v) = f(v, θ*(v)), where θ*(v) is the inner solution:

    dF/dv = f_v − B H⁻¹ f_θ   at θ*(v),   H = ∇²_θθ g,   B = ∇²_vθ g.

The truth to compare with is a closed form if the caller has one, and else finite differences of F in float64, with the
inner problem solved anew at each point. It shares no code with the methods.

Where the direction of a method is taken:

* At (v, θ*(v)), with v held and θ and the method's state free to settle: `soba` finds its z, `f2sa` its y and z. Those
  that have no state do not move. A schedule is held constant where the method has such a one; give `meha` with p = 0.
* Joint value-function methods (`bome`, `pbgd`) give no hypergradient at θ*(v): there ∇q̂ = 0, and the direction is f_v.
  Their iterates live a little beside it, at θ = θ*(v) − (1/λ) H⁻¹f_θ + o(1/λ), where δ_θ = f_θ + λ g_θ vanishes, and
  there f_v + λ∇_v q̂ tends to the hypergradient for λ → ∞ and T → ∞. So ∇_v q̂ = (δ_v − f_v)/λ_k is read off the
  direction at θ*(v) ± t H⁻¹f_θ, on the side that has λ_k > 0, and f_v ∓ ∇_v q̂/t is compared, extrapolated from t and
  t/2 to t = 0. On the quadratic g = ½(θ−Av)ᵀH(θ−Av) that is f_v + Aᵀ(I − (I−αH)^T) f_θ, the direction of T-step ITD.
"""

import math
import typing
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import LBFGS

from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.linalg import conjugate_gradients
from bome.core.trees import Pair, axpy, clone, dot, scale, sub
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.inner import InnerMap
from bome.methods.base import Method, Step
from bome.oracles.autograd import AutogradOracle
from bome.oracles.base import check
from bome.problem import Batches, Problem
from bome.testing.hypergradient_report import FALLS, HypergradReport

InnerSolver = Callable[[Leaves, Leaves], Leaves]
"""(v, θ) ↦ θ*(v), from the start θ."""

DENSE = 512
"""Up to this many entries of θ, Newton's method and linear systems use the whole Hessian."""
DIRECTIONS = 32
"""Up to this many entries of v each has its own finite difference; else this many random directions have."""
DOUBLINGS = 8
"""How often T, K, ... are doubled to see the bias fall."""
SETTLING = 2000
"""The largest number of steps for θ and the state to settle while v is held."""


def hypergradcheck(
    problem: Problem,
    method: Method,
    point: Pair | None = None,
    *,
    hypergradient: Callable[[Leaves], Leaves] | None = None,
    solve_inner: InnerSolver | None = None,
    at: Literal["solution", "point"] = "solution",
    batches: Batches | None = None,
    theta_lr: float | None = None,
    rtol: float = 1e-6,
) -> HypergradReport:
    """Compare a method's v-direction with the exact hypergradient.

    If they differ, the fields that the method names in `accuracy` (T, K, Q, λ) are doubled again and again, which tells
    the bias of a finite T from an error. The variables of the problem are left as they are.

    Args:
        problem: a problem in float64 without random numbers.
        method: the method.
        point: (v, θ); by default the current one of the problem. θ is only where the inner solver starts from.
        hypergradient: v ↦ dF/dv, where it is known in closed form.
        solve_inner: (v, θ) ↦ θ*(v); by default L-BFGS and then Newton's method.
        at: take the direction at (v, θ*(v)), or in one step at the "point" as it is.
        batches: one inner and one outer batch, where the losses need data.
        theta_lr: the step size of θ for methods that take it from the optimiser; by default α, and less
            where that diverges.
        rtol: the relative error that counts as none.

    Raises:
        ProblemError: the problem is not in float64, or its inner problem could not be solved.
        UnsupportedError: the method cannot solve the problem.
    """
    probe = _Probe(problem, batches or Batches(), theta_lr)
    point = _checked(problem, method, probe.oracle, problem.point if point is None else point)
    solve = solve_inner if solve_inner is not None else probe.solve
    v, theta = point.v, clone(solve(point.v, point.theta))
    frame = _frame(v)
    if hypergradient is not None:
        truth, exact = "the closed form", frame.T @ _flat(hypergradient(v))
    else:
        truth, exact = "finite differences of f(v, θ*(v))", probe.differences(v, theta, solve, frame)
    start = Pair(v, theta if at == "solution" else point.theta)
    rescale = method.settles == "penalty" and not probe.joint(method, start)
    where, first = "", exact
    errors: list[float] = []
    for doubled in _more_accurate(method):
        leaves, place = probe.direction(doubled, start, theta, settle=at == "solution")
        direction = frame.T @ _flat(leaves)
        if not errors:
            first, where = direction, place
        errors.append(_error(direction, exact, rescale))
        if not probe.settled or errors[-1] <= rtol or (len(errors) > 2 and errors[-1] > FALLS * errors[-2]):
            break
    product, norms = float(first @ exact), float(first.norm() * exact.norm())
    return HypergradReport(
        method=method.name,
        truth=truth,
        where=where,
        eliminated=probe.joint(method, start),
        direction=first,
        hypergradient=exact,
        relative_error=float((first - exact).norm() / exact.norm().clamp(min=_TINY)),
        cosine=product / norms if norms > 0 else math.nan,
        factor=product / max(float(exact @ exact), _TINY),
        errors=tuple(errors),
        doubled=tuple("T" if name == "inner" else name for name in _accuracy_fields(method)),
        rtol=rtol,
        bias=method.bias,
        settles=method.settles,
    )


_TINY = 1e-300


def _error(direction: Tensor, exact: Tensor, rescale: bool) -> float:
    """Relative error; if wanted that of the best multiple, as the directions of penalty methods may be divided by λ."""
    if rescale:
        direction = direction * float(direction @ exact) / max(float(direction @ direction), _TINY)
    return float((direction - exact).norm() / exact.norm().clamp(min=_TINY))


class _Probe:
    """The problem, its oracle and the batches of an evaluation."""

    def __init__(self, problem: Problem, batches: Batches, theta_lr: float | None) -> None:
        self.problem, self.batches, self.theta_lr = problem, batches, theta_lr
        self.oracle = AutogradOracle(problem)
        self.oracle._settled = True  # running statistics stay as they are
        self.settled = True

    def joint(self, method: Method, start: Pair) -> bool:
        """Whether it is a joint value-function method: one that moves θ along f_θ + λ g_θ."""
        step = self._step(method, start, method.init(self.oracle, start), 0.0)
        return step.new_theta is None and step.info.lam is not None and step.info.q is not None

    def direction(self, method: Method, start: Pair, solution: Leaves, settle: bool) -> tuple[Leaves, str]:
        """The v-direction in the sense of the module's docstring, and where it was taken."""
        if self.joint(method, start):
            return self._beside(method, start.v, solution), "beside θ*(v) with λ eliminated"
        rate = self.theta_lr if self.theta_lr is not None else float(getattr(method.inner_map, "lr", 0.1))
        if not settle:
            return self._step(method, start, method.init(self.oracle, start), rate).direction.v, "at the point given"
        for _ in range(10 if self.theta_lr is None else 1):
            try:
                return self._settled(hold_schedule(method), start, rate)
            except NonFiniteError:
                rate /= 4
        raise NonFiniteError(0, f"the direction of {method.name}", "it diverges while v is held: give a smaller α")

    def _step(self, method: Method, point: Pair, state: State, rate: float) -> Step:
        inner, outer = self.batches.inner[0], self.batches.outer[0]
        batches = Batches(inner=(inner,) * method.inner_batches, outer=(outer,) * method.outer_batches)
        metric = Metric((rate,) * len(point.v), (rate,) * len(point.theta))
        self.oracle.begin()
        self.oracle._settled = True
        step = method.step(self.oracle, point, state, batches, metric)
        leaves = step.direction.v + step.direction.theta + (step.new_theta or ())
        if not all(bool(x.isfinite().all()) for x in leaves):
            raise NonFiniteError(0, f"the direction of {method.name}", "give a smaller theta_lr, or a smaller α")
        return step

    def _settled(self, method: Method, start: Pair, rate: float) -> tuple[Leaves, str]:
        """The v-direction once it has stopped changing while v is held.

        Only its length may still change if θ and what has the form of v or θ in the state do not: by a schedule.
        """
        theta, state = start.theta, method.init(self.oracle, start)
        now: Leaves = ()
        far = 1e6 * (1 + max(float(x.abs().max()) for x in theta))
        for k in range(SETTLING):
            before = theta, state
            step = self._step(method, Pair(start.v, theta), state, rate)
            last, now, state = now, step.direction.v, step.state
            if step.new_theta is not None:
                theta = step.new_theta
            elif step.direction.theta:
                theta = axpy(-rate, step.direction.theta, theta)
            if last and (_close(now, last) or (_parallel(now, last) and _still(before, (theta, state), start))):
                return (last, "at θ*(v)") if k == 1 else (now, f"at θ*(v), after {k} steps to settle")
            if any(float(x.abs().max()) > far for x in theta):
                raise NonFiniteError(k, f"θ of {method.name} with v held", "give a smaller theta_lr")
        self.settled = False
        return now, f"at θ*(v), not settled after {SETTLING} steps"

    def _beside(self, method: Method, v: Leaves, solution: Leaves) -> Leaves:
        """f_v ∓ ∇_v q̂ / t beside the inner solution, extrapolated to t = 0."""
        f = self.oracle.outer(v, solution, self.batches.outer[0])
        way = self._solve_hessian(v, solution, f.grad.theta)  # H⁻¹f_θ
        size = math.sqrt(float(dot(way, way)))
        if size == 0:
            return f.grad.v
        t = 1e-4 * (1 + math.sqrt(float(dot(solution, solution)))) / size
        coarse, fine = self._eliminated(method, v, solution, way, t), self._eliminated(method, v, solution, way, t / 2)
        return axpy(2.0, fine, scale(-1.0, coarse))

    def _eliminated(self, method: Method, v: Leaves, solution: Leaves, way: Leaves, t: float) -> Leaves:
        """f_v ∓ ∇_v q̂ / t at θ* ± t H⁻¹f_θ, the mean of the sides with λ > 0."""
        sides: list[Leaves] = []
        for side in (-t, t):
            theta = axpy(side, way, solution)
            start = Pair(v, theta)
            step = self._step(method, start, method.init(self.oracle, start), 0.0)
            lam = float(typing.cast(Tensor, step.info.lam))
            if lam > 0:
                f_v = self.oracle.outer(v, theta, self.batches.outer[0], "v").grad.v
                sides.append(axpy(-1 / (side * lam), sub(step.direction.v, f_v), f_v))
        if not sides:
            raise ProblemError(f"{method.name} has λ = 0 on both sides of θ*(v): its direction says nothing of ∇_v q̂")
        return scale(1 / len(sides), tuple(sum(leaf[1:], leaf[0]) for leaf in zip(*sides, strict=True)))

    def _solve_hessian(self, v: Leaves, theta: Leaves, b: Leaves) -> Leaves:
        n = sum(x.numel() for x in b)
        g = self.oracle.gradient_map(v, theta, self.batches.inner[0])
        if n > DENSE:
            return conjugate_gradients(lambda p: g.pull(p, "theta").theta, b, 4 * DENSE, 1e-13)
        return _unflat(torch.linalg.lstsq(self._hessian(v, theta), _flat(b)[:, None], driver="gelsd").solution[:, 0], b)

    def _hessian(self, v: Leaves, theta: Leaves) -> Tensor:
        g = self.oracle.gradient_map(v, theta, self.batches.inner[0])
        rows = torch.eye(sum(x.numel() for x in theta), dtype=torch.float64)
        h = torch.stack([_flat(g.pull(_unflat(row, theta), "theta").theta) for row in rows])
        return (h + h.T) / 2

    def solve(self, v: Leaves, theta: Leaves) -> Leaves:
        """θ*(v) by L-BFGS from θ and, for a small θ, Newton's method."""
        if self.problem.project_theta:
            raise ProblemError("θ has a projection, which the inner solver does not know: give solve_inner")
        theta = self._lbfgs(v, theta)
        if sum(x.numel() for x in theta) <= DENSE:
            theta = self._newton(v, theta)
        g = self.oracle.inner(v, theta, self.batches.inner[0], "theta")
        left = math.sqrt(float(dot(g.grad.theta, g.grad.theta)))
        if not left <= 1e-7 * (1 + abs(float(g.value))):
            raise ProblemError(f"the inner problem could not be solved: ‖g_θ‖ = {left:.1e} is left; give solve_inner")
        return theta

    def _lbfgs(self, v: Leaves, theta: Leaves) -> Leaves:
        x = _flat(theta).clone()
        x.requires_grad_()
        optimiser = LBFGS(
            [x], max_iter=1000, tolerance_grad=1e-13, tolerance_change=0, history_size=20, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            g = self.oracle.inner(v, _unflat(x.detach(), theta), self.batches.inner[0], "theta")
            x.grad = _flat(g.grad.theta)
            return g.value

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        return _unflat(x.detach(), theta)

    def _newton(self, v: Leaves, theta: Leaves) -> Leaves:
        """Newton steps as long as they make ‖g_θ‖ smaller; of least length where H is singular."""

        def gradient(at: Leaves) -> Tensor:
            return _flat(self.oracle.inner(v, at, self.batches.inner[0], "theta").grad.theta)

        grad = gradient(theta)
        for _ in range(20):
            way = torch.linalg.lstsq(self._hessian(v, theta), grad[:, None], driver="gelsd").solution[:, 0]
            trial = _unflat(_flat(theta) - way, theta)
            after = gradient(trial)
            if not float(after.norm()) < float(grad.norm()):
                break
            theta, grad = trial, after
        return theta

    def differences(self, v: Leaves, theta: Leaves, solve: InnerSolver, frame: Tensor) -> Tensor:
        """The derivative of f(v, θ*(v)) along each column of the frame, by a difference of fourth order."""
        h = 1e-3 * (1 + float(_flat(v).abs().max()))

        def value(way: Tensor, t: float) -> float:
            moved = _unflat(_flat(v) + t * way, v)
            return float(self.oracle.outer(moved, solve(moved, theta), self.batches.outer[0]).value)

        slopes = [
            (8 * (value(way, h) - value(way, -h)) - (value(way, 2 * h) - value(way, -2 * h))) / (12 * h)
            for way in frame.T
        ]
        return torch.tensor(slopes, dtype=torch.float64)


def _checked(problem: Problem, method: Method, oracle: AutogradOracle, point: Pair) -> Pair:
    check(oracle, method.name, method.requires)
    reason = method.refusal(problem)
    if reason is not None:
        raise UnsupportedError(f"{method.name} cannot solve this problem: {reason}")
    if any(x.dtype != torch.float64 for x in point.v + point.theta):
        raise ProblemError("hypergradcheck needs float64: make the variables, and the data, with dtype=torch.float64")
    if problem.v.table is not None:
        raise ProblemError("hypergradcheck needs a dense v, not a PerSample: give its rows as a tensor")
    return Pair(clone(point.v), clone(point.theta))


def _more_accurate(method: Method) -> list[Method]:
    """The method, then with its accuracy fields doubled, doubled again, ..."""
    names, methods = _accuracy_fields(method), [method]
    for _ in range(DOUBLINGS if names else 0):
        last, changes = methods[-1], dict[str, Any]()
        for name in names:
            value = getattr(last, name)
            changes[name] = value.with_steps(2 * value.steps) if isinstance(value, InnerMap) else 2 * value
        methods.append(replace(last, **changes))  # type: ignore[type-var]
    return methods


def _accuracy_fields(method: Method) -> list[str]:
    return [f.name for f in fields(method) if f.name in method.accuracy]  # type: ignore[arg-type]


def hold_schedule(method: Method) -> Method:
    """The method with its schedule constant, where it has such a one."""
    kind = typing.get_type_hints(type(method)).get("schedule")
    if kind is None or "constant" not in typing.get_args(kind):
        return method
    names = {f.name for f in fields(method)}  # type: ignore[arg-type]
    steps = {"steps": 1000} if "steps" in names and getattr(method, "steps", None) is None else {}
    return replace(method, schedule="constant", **steps)  # type: ignore[type-var]


def _close(a: Leaves, b: Leaves) -> bool:
    """Whether they agree to rounding."""
    x, y = _flat(a), _flat(b)
    return bool((x - y).norm() <= 1e-13 * torch.maximum(x.norm(), y.norm()))


def _parallel(a: Leaves, b: Leaves) -> bool:
    """Whether they agree to rounding but for their lengths; never if one is 0."""
    sizes = [float(_flat(x).norm()) for x in (a, b)]
    return min(sizes) > 0 and _close(scale(1 / sizes[0], a), scale(1 / sizes[1], b))


def _still(before: tuple[Leaves, State], after: tuple[Leaves, State], start: Pair) -> bool:
    """Whether θ, and the groups of the state that have the form of v or θ, have not changed."""
    forms = [[x.shape for x in leaves] for leaves in start]
    pairs = [(before[0], after[0])]
    pairs += [(before[1][name], group) for name, group in after[1].items() if [x.shape for x in group] in forms]
    zero = 1e-13 * (1 + float(_flat(start.theta).norm()))
    return all(len(a) == len(b) and float((_flat(a) - _flat(b)).norm()) <= zero for a, b in pairs)


def _frame(v: Leaves) -> Tensor:
    """Orthonormal directions in the space of v, as columns: all of it, or some random ones."""
    m = sum(x.numel() for x in v)
    if m <= DIRECTIONS:
        return torch.eye(m, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    q: Tensor = torch.linalg.qr(torch.randn(m, DIRECTIONS, generator=generator, dtype=torch.float64)).Q
    return q


def _flat(leaves: Leaves) -> Tensor:
    return torch.cat([x.reshape(-1) for x in leaves])


def _unflat(x: Tensor, pattern: Leaves) -> Leaves:
    parts = torch.split(x, [leaf.numel() for leaf in pattern])
    return tuple(part.reshape(leaf.shape) for part, leaf in zip(parts, pattern, strict=True))
