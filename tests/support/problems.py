"""Four problems whose hypergradients are known: quadratic, ridge, logistic and a small network with tanh.

Each is an `Example` with θ at the inner solution θ*(v), found to 1e-12 in closed form or by Newton's method. Its
hypergradient is known twice: exactly, and by finite differences of v ↦ f(v, θ*(v)), which share nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad, jacrev
from torch.nn.functional import softplus

from bome import AutogradOracle, Batches, Problem
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.methods.base import Method, Step
from bome.tasks import quadratic_instance


class Dense(NamedTuple):
    """Derivatives at a point, with v and θ laid end to end."""

    f_v: Tensor
    f_theta: Tensor
    g_theta: Tensor
    H: Tensor
    B: Tensor

    @property
    def hypergradient(self) -> Tensor:
        """f_v − B H⁻¹ f_θ."""
        z: Tensor = torch.linalg.solve(self.H, self.f_theta)
        return self.f_v - self.B @ z

    def series(self, lr: float, terms: int) -> Tensor:
        """f_v − αB Σ_{i<K} (I − αH)^i f_θ."""
        power, total = self.f_theta, torch.zeros_like(self.f_theta)
        for _ in range(terms):
            total, power = total + power, power - lr * self.H @ power
        return self.f_v - lr * self.B @ total


@dataclass(frozen=True)
class Example:
    """A problem with θ = θ*(v).

    Attributes:
        name: of the problem.
        problem: the problem; v is one vector.
        hypergradient: the exact derivative of v ↦ f(v, θ*(v)).
        lr: 1/L, a step size for gradient descent near θ*(v).
        mu: the smallest curvature of g(v, ·) at θ*(v).
    """

    name: str
    problem: Problem
    hypergradient: Tensor
    lr: float
    mu: float

    def value(self, v: Tensor) -> Tensor:
        """f(v, θ*(v))."""
        theta = inner_solution(self.problem, v, flat(self.problem.point.theta))
        return loss(self.problem, "f", v, theta)

    def finite_differences(self, h: float = 2e-3) -> Tensor:
        """The derivative of `value`, by central differences with an error of O(h⁴)."""
        v = self.problem.point.v[0]
        slopes = []
        for e in torch.eye(len(v), dtype=v.dtype):
            near, far = (self.value(v + s * e) - self.value(v - s * e) for s in (h, 2 * h))
            slopes.append((8 * near - far) / (12 * h))
        return torch.stack(slopes)


def flat(leaves: Leaves) -> Tensor:
    """The tensors laid end to end."""
    return torch.cat([x.reshape(-1) for x in leaves])


def unflat(vector: Tensor, like: Leaves) -> Leaves:
    """The reverse of `flat`."""
    parts: Leaves = vector.split([x.numel() for x in like])  # type: ignore[no-untyped-call]
    return tuple(part.reshape(x.shape) for part, x in zip(parts, like, strict=True))


def loss(problem: Problem, which: Any, v: Tensor, theta: Tensor, batch: Any = None) -> Tensor:
    """f or g as a function of two vectors."""
    point = problem.point
    return problem.loss(which, unflat(v, point.v), unflat(theta, point.theta), batch, {})


def dense(problem: Problem, v: Tensor, theta: Tensor, batch: Any = None) -> Dense:
    """All derivatives at (v, θ) as matrices."""
    both, m = torch.cat([v, theta]).requires_grad_(), len(v)

    def of(which: str) -> Callable[[Tensor], Tensor]:
        return lambda x: loss(problem, which, x[:m], x[m:], batch)

    df, dg = (torch.autograd.grad(of(which)(both), both)[0] for which in ("f", "g"))
    second = jacrev(grad(of("g")))(both.detach())
    return Dense(df[:m], df[m:], dg[m:], second[m:, m:], second[:m, m:])


def inner_solution(problem: Problem, v: Tensor, theta: Tensor) -> Tensor:
    """The root of g_θ(v, ·) near θ by Newton's method, to rounding."""
    for _ in range(50):
        at = dense(problem, v, theta)
        if float(at.g_theta.norm()) <= 1e-13:
            break
        theta = theta - torch.linalg.solve(at.H, at.g_theta)
    assert float(at.g_theta.norm()) <= 1e-12
    return theta


def _example(name: str, problem: Problem, hypergradient: Tensor | None = None) -> Example:
    """The example, after θ has been moved to θ*(v)."""
    point = problem.point
    v, theta = flat(point.v), flat(point.theta)
    for _ in range(200):  # into the basin of a minimum
        theta = theta.detach().requires_grad_()
        (slope,) = torch.autograd.grad(loss(problem, "g", v, theta), theta)
        theta = (theta - 0.2 * slope).detach()
    theta = inner_solution(problem, v, theta)
    for leaf, value in zip(point.theta, unflat(theta, point.theta), strict=True):
        leaf.copy_(value)
    at = dense(problem, v, theta)
    curvatures = torch.linalg.eigvalsh(at.H)
    assert float(curvatures[0]) > 0
    exact = at.hypergradient if hypergradient is None else hypergradient
    return Example(name, problem, exact, 1 / float(curvatures[-1]), float(curvatures[0]))


def _draw(*shapes: tuple[int, ...], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def quadratic_example(seed: int = 0) -> Example:
    """g = ½(θ − Av)ᵀH(θ − Av): the hypergradient is f_v + Aᵀf_θ at θ = Av."""
    instance = quadratic_instance(seed=seed)
    v = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    problem = Problem(instance.outer, instance.inner, v, torch.zeros(4, dtype=torch.float64))
    return _example("quadratic", problem, instance.exact_hypergradient(v))


def ridge(seed: int = 0) -> Example:
    """g = ½ mean (Xθ − y)² + ½e^v‖θ‖² with one v: θ* = M⁻¹Xᵀy/n, M = XᵀX/n + e^v I, and dθ*/dv = −e^v M⁻¹θ*."""
    x, y, x_val, y_val = _draw((20, 5), (20,), (15, 5), (15,), seed=seed)
    v = torch.tensor([-0.5], dtype=torch.float64)

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (x @ theta - y).square().mean() + 0.5 * v.exp().sum() * theta.square().sum()

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (x_val @ theta - y_val).square().mean() + 0.1 * v.square().sum()

    left = x.T @ x / 20 + v.exp() * torch.eye(5, dtype=torch.float64)
    theta = torch.linalg.solve(left, x.T @ y / 20)
    f_theta = x_val.T @ (x_val @ theta - y_val) / 15
    slope = -v.exp() * torch.linalg.solve(left, theta)
    problem = Problem(outer, inner, v, torch.zeros(5, dtype=torch.float64))
    return _example("ridge", problem, 0.2 * v + (f_theta @ slope)[None])


def logistic(seed: int = 0) -> Example:
    """Logistic regression whose features have penalties ½e^{v_j}θ_j² of their own."""
    x, x_val, truth, noise = _draw((30, 4), (20, 4), (4,), (50,), seed=seed)
    signs = torch.sign(torch.cat([x, x_val]) @ truth + 0.5 * noise)
    v = torch.tensor([-1.5, -1.0, -2.0, -0.5], dtype=torch.float64)

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return softplus(-signs[:30] * (x @ theta)).mean() + 0.5 * (v.exp() * theta.square()).sum()

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return softplus(-signs[30:] * (x_val @ theta)).mean() + 0.01 * v.square().sum()

    return _example("logistic", Problem(outer, inner, v, torch.zeros(4, dtype=torch.float64)))


def mlp(seed: int = 0) -> Example:
    """A network 2 → 3 → 1 with tanh, in four tensors with penalties ½e^{v_i}‖θ_i − p_i‖² of their own.

    Like fine-tuning, it is held near given weights p: without them hidden units are alike and the curvature vanishes.
    """
    x, x_val, w1, b1, w2 = _draw((16, 2), (12, 2), (3, 2), (3,), (3,), seed=seed)
    prior = [w1, b1, w2, torch.zeros((), dtype=torch.float64)]
    y, y_val = (torch.sin(2 * z[:, 0]) + z[:, 1] for z in (x, x_val))
    v = torch.tensor([-0.3, 0.0, -0.7, 0.2], dtype=torch.float64)

    def predict(theta: list[Tensor], x: Tensor) -> Tensor:
        return torch.tanh(x @ theta[0].T + theta[1]) @ theta[2] + theta[3]

    def inner(v: Tensor, theta: list[Tensor], batch: Any) -> Tensor:
        penalty = torch.stack([(x - p).square().sum() for x, p in zip(theta, prior, strict=True)])
        return 0.5 * (predict(theta, x) - y).square().mean() + 0.5 * (v.exp() * penalty).sum()

    def outer(v: Tensor, theta: list[Tensor], batch: Any) -> Tensor:
        return 0.5 * (predict(theta, x_val) - y_val).square().mean() + 0.05 * v.square().sum()

    return _example("mlp", Problem(outer, inner, v, [x.clone() for x in prior]))


EXAMPLES: dict[str, Callable[[], Example]] = {
    "quadratic": quadratic_example,
    "ridge": ridge,
    "logistic": logistic,
    "mlp": mlp,
}
"""All four, each made anew by a call."""


def full(method: Method, batch: Any = None) -> Batches:
    """The full batch, as often as a step of the method takes one."""
    return Batches(inner=(batch,) * method.inner_batches, outer=(batch,) * method.outer_batches)


def one_step(
    problem: Problem,
    method: Method,
    *,
    state: State | None = None,
    batches: Batches | None = None,
    theta_lr: float = 0.1,
    oracle: AutogradOracle | None = None,
) -> Step:
    """The method's own step at the current point of the problem, before any optimiser."""
    oracle = AutogradOracle(problem) if oracle is None else oracle
    point: Pair = problem.point
    state = method.init(oracle, point) if state is None else state
    metric = Metric((0.1,) * len(point.v), (theta_lr,) * len(point.theta))
    return method.step(oracle, point, state, full(method) if batches is None else batches, metric)


def relative(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖."""
    return float((a - b).norm() / b.norm())


class Bed(NamedTuple):
    """The quadratic of methods with closed forms, at a point that is not feasible.

    Attributes:
        problem: f = ½‖θ − a‖² + ½‖v − b‖², g = ½(θ − Av)ᵀH(θ − Av), θ in one tensor.
    """

    A: Tensor
    H: Tensor
    a: Tensor
    b: Tensor
    problem: Problem

    @property
    def v(self) -> Tensor:
        """The current v."""
        return self.problem.point.v[0]

    @property
    def theta(self) -> Tensor:
        """The current θ."""
        return self.problem.point.theta[0]

    def after(self, lr: float, steps: int) -> Tensor:
        """θ after T steps of gradient descent: Av + (I − αH)^T (θ − Av)."""
        goal = self.A @ self.v
        return goal + self.power(lr, steps) @ (self.theta - goal)

    def power(self, lr: float, steps: int) -> Tensor:
        """(I − αH)^T."""
        matrix: Tensor = torch.linalg.matrix_power(torch.eye(4, dtype=torch.float64) - lr * self.H, steps)
        return matrix


def bed(seed: int = 0, start: int = 0) -> Bed:
    """A random quadratic at a random point."""
    instance = quadratic_instance(seed=seed)
    v, theta = _draw((3,), (4,), seed=100 + start)
    problem = Problem(instance.outer, instance.inner, v, theta)
    return Bed(instance.A, instance.H, instance.a, instance.b, problem)


class FiniteSum(NamedTuple):
    """g_i = ½(θ − A_i v)ᵀH_i(θ − A_i v) and f_j = ½‖θ − a_j‖² + ½‖v − b_j‖²; a batch is (H, A, a, b), or rows of it."""

    H: Tensor
    A: Tensor
    a: Tensor
    b: Tensor
    problem: Problem

    def inner(self, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The i-th batch; one batch holds what both losses need."""
        return self.H[i], self.A[i], self.a[i], self.b[i]

    def solution(self) -> tuple[Tensor, Tensor]:
        """(v*, θ*) of the means: θ*(v) = H̄⁻¹C̄v, C̄ = mean H_iA_i, so v* is as on a quadratic with A = H̄⁻¹C̄."""
        reach = torch.linalg.solve(self.H.mean(0), (self.H @ self.A).mean(0))
        left = torch.eye(3, dtype=torch.float64) + reach.T @ reach
        v = torch.linalg.solve(left, reach.T @ self.a.mean(0) + self.b.mean(0))
        return v, reach @ v


def finite_sum(count: int = 12, spread: float = 0.3, seed: int = 0) -> FiniteSum:
    """Random terms around a common quadratic with curvatures 0.5 .. 2."""
    base = quadratic_instance(seed=seed)
    noise, A, a, b = _draw((count, 4, 4), (count, 4, 3), (count, 4), (count, 3), seed=seed + 50)  # noqa: N806
    h = base.H + 0.1 * spread * noise @ noise.mT

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        data = getattr(batch, "data", batch)
        h, matrix = (x.reshape(-1, *x.shape[-2:]) for x in data[:2])
        r = theta - matrix @ v
        value: Tensor = 0.5 * (r * (h @ r[..., None])[..., 0]).sum(-1).mean()
        return value

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        a, b = getattr(batch, "data", batch)[-2:]
        each: Tensor = (theta - a).square().sum(-1) + (v - b).square().sum(-1)
        return 0.5 * each.mean()

    v, theta = _draw((3,), (4,), seed=seed + 90)
    problem = Problem(outer, inner, v, theta)
    return FiniteSum(h, base.A + spread * A, base.a + spread * a, base.b + spread * b, problem)
