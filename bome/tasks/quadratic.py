"""Random quadratic problems, on which everything is known in closed form."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.trees import Pair
from bome.problem import Problem
from bome.tasks.task import Optimum, Settings, Task, norm

N, M = 4, 3
"""Dimensions of θ and v."""

_CURVATURES = {"code": (0.5, 1.0, 1.5, 2.0), "isotropic": (1.0, 1.0, 1.0, 1.0)}
_STARTS = {"a": (0.0, 0.0), "b": (1.0, -1.0)}


@dataclass(frozen=True)
class QuadraticInstance:
    """f = ½‖θ − a‖² + ½‖v − b‖²,  g = ½(θ − Av)ᵀH(θ − Av).

    Attributes:
        A: (n, m), the inner solution is Av.
        H: (n, n), symmetric and positive definite, the inner curvature.
        a: (n,), where f wants θ.
        b: (m,), where f wants v.
    """

    A: Tensor
    H: Tensor
    a: Tensor
    b: Tensor

    def outer(self, v: Tensor, theta: Tensor, batch: Any = None) -> Tensor:
        """f(v, θ)."""
        return 0.5 * (theta - self.a).square().sum() + 0.5 * (v - self.b).square().sum()

    def inner(self, v: Tensor, theta: Tensor, batch: Any = None) -> Tensor:
        """g(v, θ)."""
        r = theta - self.A @ v
        return 0.5 * r @ self.H @ r

    def solution(self) -> tuple[Tensor, Tensor]:
        """(v*, Av*), where (AᵀA + I)v* = Aᵀa + b."""
        return self._stationary(torch.eye(len(self.a), dtype=self.a.dtype))

    def exact_hypergradient(self, v: Tensor) -> Tensor:
        """The gradient of v ↦ f(v, θ*(v)): f_v + Aᵀf_θ at θ = Av."""
        return v - self.b + self.A.T @ (self.A @ v - self.a)

    def fixed_point(self, steps: int, lr: float) -> tuple[Tensor, Tensor]:
        """Where BOME with T inner steps of size α (and T-step ITD) settle, with θ = Av.

        That is the solution of f_v + Aᵀ(I − P)f_θ = 0, P = (I − αH)^T, which is the solution of the problem only if
        P = 0, as for T → ∞.
        """
        return self._stationary(self._reach(steps, lr))

    def residual(self, v: Tensor, theta: Tensor, steps: int, lr: float) -> float:
        """‖f_v + Aᵀ(I − P)f_θ‖ at (v, θ): 0 where BOME with T inner steps of size α is stationary."""
        return norm(v - self.b + self.A.T @ self._reach(steps, lr) @ (theta - self.a))

    def _reach(self, steps: int, lr: float) -> Tensor:
        """I − P: the share of the way from θ to θ* that T inner steps go."""
        identity = torch.eye(len(self.a), dtype=self.a.dtype)
        p: Tensor = torch.linalg.matrix_power(identity - lr * self.H, steps)
        return identity - p

    def _stationary(self, reach: Tensor) -> tuple[Tensor, Tensor]:
        left = torch.eye(len(self.b), dtype=self.b.dtype) + self.A.T @ reach @ self.A
        v = torch.linalg.solve(left, self.b + self.A.T @ reach @ self.a)
        return v, self.A @ v


def quadratic_instance(variant: str = "code", seed: int = 0, dtype: torch.dtype = torch.float64) -> QuadraticInstance:
    """The random matrices of `quadratic`; drawn in float64, so that the seed means the same for every dtype."""
    curvatures = torch.tensor(choose("variant of quadratic", variant, _CURVATURES), dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((N, M), (N, N), (N,), (M,))]
    axes = torch.linalg.qr(draw[1]).Q
    h = axes @ torch.diag(curvatures) @ axes.T
    return QuadraticInstance(*(x.to(dtype) for x in (draw[0], (h + h.T) / 2, draw[2], draw[3])))


def quadratic(variant: str = "code", start: str = "a", seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """min ½‖θ − a‖² + ½‖v − b‖²  subject to  θ = argmin ½(θ − Av)ᵀH(θ − Av),  θ ∈ R⁴, v ∈ R³.

    A, a and b have normal entries, H random axes. The solution is θ* = Av*, (AᵀA + I)v* = Aᵀa + b. With finite T BOME
    settles elsewhere, at `QuadraticInstance.fixed_point`. This task is not in the paper; the default variant is called
    "code" as everywhere.

    Args:
        variant: "code" for H with eigenvalues 0.5, 1, 1.5, 2, or "isotropic" for H = I.
        start: "a" is v_0 = 0, θ_0 = 0, which is feasible; "b" is all ones for v_0 and minus ones for θ_0.
        seed: of the instance.
        dtype: of the variables.
    """
    instance = quadratic_instance(variant, seed, dtype)
    start_v, start_theta = choose("start of quadratic", start, _STARTS)
    best_v, best_theta = instance.solution()

    def solve_inner(v: Leaves, theta: Leaves) -> Leaves:
        return (instance.A @ v[0],)

    return Task(
        name="quadratic",
        variant=variant,
        start=start,
        problem=Problem(
            instance.outer,
            instance.inner,
            torch.full((M,), start_v, dtype=dtype),
            torch.full((N,), start_theta, dtype=dtype),
        ),
        # α = 0.2 is below 1/L, where L = 2 is the largest eigenvalue of H.
        settings=Settings(steps=20000, inner_steps=10, inner_lr=0.2, outer_lr=0.2, theta_lr=0.2, decay=1.0),
        optimum=Optimum(
            f=float(instance.outer(best_v, best_theta)),
            distance=lambda point: norm(point.v[0] - best_v, point.theta[0] - best_theta),
            text=f"v = ({', '.join(f'{x:.4g}' for x in best_v.tolist())}), θ = Av",
            point=Pair((best_v,), (best_theta,)),
        ),
        solve_inner=solve_inner,
    )
