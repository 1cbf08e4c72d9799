"""Algorithm 1 of the paper, transcribed line by line to NumPy, with gradients derived by hand.

Deliberately naive: every gradient is evaluated where the algorithm asks for it, nothing is shared or reused, and no
code of the library is used. v and θ are one-dimensional float64 arrays.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Losses(Protocol):
    """The values and gradients that Algorithm 1 needs."""

    def g(self, v: Array, theta: Array) -> float: ...
    def g_v(self, v: Array, theta: Array) -> Array: ...
    def g_theta(self, v: Array, theta: Array) -> Array: ...
    def f_v(self, v: Array, theta: Array) -> Array: ...
    def f_theta(self, v: Array, theta: Array) -> Array: ...


def algorithm1_step(
    losses: Losses, v: Array, theta: Array, *, xi: float, alpha: float, steps: int, eta: float, phi: str
) -> tuple[Array, Array]:
    """One iteration: (v_k, θ_k) to (v_{k+1}, θ_{k+1})."""
    # θ^(0) = θ_k;  θ^(t+1) = θ^(t) − α ∇_θ g(v_k, θ^(t))
    theta_t = theta.copy()
    for _ in range(steps):
        theta_t = theta_t - alpha * losses.g_theta(v, theta_t)

    # ∇q̂(v_k, θ_k), with θ^(T) held constant
    q_v = losses.g_v(v, theta) - losses.g_v(v, theta_t)
    q_theta = losses.g_theta(v, theta)
    dq = np.concatenate([q_v, q_theta])
    df = np.concatenate([losses.f_v(v, theta), losses.f_theta(v, theta)])

    # λ_k = max((φ_k − ⟨∇f, ∇q̂⟩) / ‖∇q̂‖², 0), and 0 where ∇q̂ = 0
    squared = float(np.sum(dq * dq))
    q = losses.g(v, theta) - losses.g(v, theta_t)
    barrier = eta * squared if phi == "norm" else eta * max(q, 0.0)
    lam = max((barrier - float(np.sum(df * dq))) / squared, 0.0) if squared > 0 else 0.0

    # (v, θ)_{k+1} = (v, θ)_k − ξ (∇f + λ_k ∇q̂)
    delta = df + lam * dq
    return v - xi * delta[: len(v)], theta - xi * delta[len(v) :]


class Coreset:
    """f = 0.1‖θ − x0‖², g = ‖Xᵀσ(v) − θ‖² with the constants of the authors' code."""

    points: Array = np.array([[1.0, 3.0], [3.0, 1.0], [-2.0, 2.0], [-3.0, -2.0]])
    x0: Array = np.array([3.0, -2.0])

    @staticmethod
    def softmax(v: Array) -> Array:
        e = np.exp(v - v.max())
        sigma: Array = e / e.sum()
        return sigma

    def g(self, v: Array, theta: Array) -> float:
        return float(np.sum((self.softmax(v) @ self.points - theta) ** 2))

    def g_v(self, v: Array, theta: Array) -> Array:
        # With r = Xᵀσ − θ: ∂g/∂σ = 2Xr, and the Jacobian of the softmax is diag(σ) − σσᵀ.
        s = self.softmax(v)
        d: Array = 2 * self.points @ (s @ self.points - theta)
        return s * (d - float(np.sum(s * d)))

    def g_theta(self, v: Array, theta: Array) -> Array:
        return 2 * (theta - self.softmax(v) @ self.points)

    def f_v(self, v: Array, theta: Array) -> Array:
        return np.zeros_like(v)

    def f_theta(self, v: Array, theta: Array) -> Array:
        return 0.2 * (theta - self.x0)


class Minimax:
    """f = vθ, g = −vθ, without bounds."""

    def g(self, v: Array, theta: Array) -> float:
        return float(-v[0] * theta[0])

    def g_v(self, v: Array, theta: Array) -> Array:
        return -theta

    def g_theta(self, v: Array, theta: Array) -> Array:
        return -v

    def f_v(self, v: Array, theta: Array) -> Array:
        return theta.copy()

    def f_theta(self, v: Array, theta: Array) -> Array:
        return v.copy()


@dataclass(frozen=True)
class Quadratic:
    """f = ½‖θ − a‖² + ½‖v − b‖², g = ½(θ − Av)ᵀH(θ − Av), H symmetric."""

    A: Array
    H: Array
    a: Array
    b: Array

    def g(self, v: Array, theta: Array) -> float:
        r = theta - self.A @ v
        return float(0.5 * r @ self.H @ r)

    def g_v(self, v: Array, theta: Array) -> Array:
        return -self.A.T @ self.H @ (theta - self.A @ v)

    def g_theta(self, v: Array, theta: Array) -> Array:
        return self.H @ (theta - self.A @ v)

    def f_v(self, v: Array, theta: Array) -> Array:
        return v - self.b

    def f_theta(self, v: Array, theta: Array) -> Array:
        return theta - self.a
