"""BSG-1, BVFSM and Penalty transcribed to NumPy line by line, with gradients derived by hand.

Deliberately naive, without any code of the library. Each function yields what a step starts from, forever.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tests.support import algorithm1
from tests.support.algorithm1 import Array as Array  # also for those who import it from here


class Losses(algorithm1.Losses, Protocol):
    """Values, gradients and second-order products."""

    def hvp(self, v: Array, z: Array) -> Array: ...
    def xvp(self, v: Array, z: Array) -> Array: ...


class Coreset:
    """f = 0.1‖θ − x0‖², g = ‖Xᵀσ(v) − θ‖²."""

    x0: Array = np.array([3.0, -2.0])

    def __init__(self, x4: tuple[float, float]) -> None:
        self.points = np.array([(1.0, 3.0), (3.0, 1.0), (-2.0, 2.0), x4])

    def softmax(self, v: Array) -> Array:
        e: Array = np.exp(v - v.max())
        shares: Array = e / e.sum()
        return shares

    def mean(self, v: Array) -> Array:
        mean: Array = self.softmax(v) @ self.points
        return mean

    def g(self, v: Array, theta: Array) -> float:
        return float(np.sum((self.mean(v) - theta) ** 2))

    def g_v(self, v: Array, theta: Array) -> Array:
        return self._through_softmax(v, 2 * self.points @ (self.mean(v) - theta))

    def g_theta(self, v: Array, theta: Array) -> Array:
        return 2 * (theta - self.mean(v))

    def f_v(self, v: Array, theta: Array) -> Array:
        return np.zeros_like(v)

    def f_theta(self, v: Array, theta: Array) -> Array:
        return 0.2 * (theta - self.x0)

    def hvp(self, v: Array, z: Array) -> Array:
        return 2 * z

    def xvp(self, v: Array, z: Array) -> Array:
        return self._through_softmax(v, -2 * self.points @ z)  # the gradient of ⟨g_θ, z⟩ = −2⟨Xᵀσ(v), z⟩ + ...

    def _through_softmax(self, v: Array, d: Array) -> Array:
        s = self.softmax(v)
        return s * (d - np.sum(s * d))  # the Jacobian of the softmax is diag(σ) − σσᵀ


class Quadratic(algorithm1.Quadratic):
    """With second-order products."""

    def hvp(self, v: Array, z: Array) -> Array:
        return self.H @ z

    def xvp(self, v: Array, z: Array) -> Array:
        return -self.A.T @ self.H @ z


def bsg1(p: Losses, v: Array, theta: Array, *, xi: float, steps: int, eps: float) -> Iterator[tuple[Array, Array]]:
    """(v_k, θ_k) of BSG-1 with all step sizes ξ."""
    while True:
        yield v, theta
        for _ in range(steps):
            theta = theta - xi * p.g_theta(v, theta)
        g_theta = p.g_theta(v, theta)
        ratio = np.sum(p.f_theta(v, theta) * g_theta) / (np.sum(g_theta**2) + eps)
        v = v - xi * (p.f_v(v, theta) - ratio * p.g_v(v, theta))


def bvfsm(
    p: Losses, v: Array, theta: Array, *, xi: float, steps: int, c_z: float, c_ln: float, total: int | None
) -> Iterator[tuple[Array, Array, Array]]:
    """(v_k, θ_k, z_k) of BVFSM with all step sizes ξ: as published for a run of `total` steps, else by default."""
    z, k = theta.copy(), 0
    while True:
        yield v, theta, z
        r = 1 / math.log(1.1 * ((total if total is not None else k) + 1))
        for _ in range(steps):
            z = z - xi * (p.g_theta(v, z) + 2 * c_z * r * z)
        top = p.g(v, z) + c_z * r * float(np.sum(z * z))
        for _ in range(steps):
            rho = _weight(p.g(v, theta), top, c_ln * r, total is not None)
            d_theta = p.f_theta(v, theta) + rho * p.g_theta(v, theta) + 2 * c_z * r * theta
            theta = theta - xi * d_theta / (1 if total is not None else max(rho, 1))
        rho = _weight(p.g(v, theta), top, c_ln * r, total is not None)
        d_v = p.f_v(v, theta) + rho * (p.g_v(v, theta) - p.g_v(v, z))
        v = v - xi * d_v / (1 if total is not None else max(rho, 1))
        k += 1


def _weight(g: float, top: float, sigma: float, published: bool) -> float:
    if published:
        return sigma / (1e-4 + top)
    slack = top - g
    return sigma / slack if slack >= sigma else 2 - slack / sigma


@dataclass(frozen=True)
class PenaltyState:
    """What a step of Penalty starts from."""

    v: Array
    theta: Array
    nu: Array
    gamma: float
    epsilon: float
    lam: float
    rate: float


def penalty(p: Losses, start: PenaltyState, *, xi: float, steps: int, mean: bool) -> Iterator[PenaltyState]:
    """The states of Penalty with all step sizes ξ."""
    s = start
    while True:
        yield s
        theta, nu = s.theta, s.nu / len(s.nu) if mean else s.nu
        for _ in range(steps):
            g_theta = p.g_theta(s.v, theta)
            d_theta = p.f_theta(s.v, theta) + p.hvp(s.v, nu + s.gamma * g_theta) + s.lam * g_theta
            theta = theta - s.rate * xi * d_theta
        g_theta = p.g_theta(s.v, theta)
        d_v = p.f_v(s.v, theta) + p.xvp(s.v, nu + s.gamma * g_theta)
        v = s.v - s.rate * xi * d_v
        if np.sum(d_theta**2) + np.sum(d_v**2) < s.epsilon**2:
            gamma = 1.1 * s.gamma
            s = PenaltyState(v, theta, s.nu + gamma * g_theta, gamma, 0.9 * s.epsilon, 0.9 * s.lam, 0.9 * s.rate)
        else:
            s = PenaltyState(v, theta, s.nu, s.gamma, s.epsilon, s.lam, s.rate)
