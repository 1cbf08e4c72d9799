"""Random instances on which the theory of the paper can be measured: exact 𝒦, q and gradients along many runs at once.

Two families satisfy the assumptions of Theorem 1 on bounded sets, with θ*(v) = Av known:

    f(v, θ) = ½‖θ − a‖² + ½‖v − b‖²,   g(v, θ) = ψ(θ − Av),   ψ(r) = Σ_i ½h_i r_i² + w(1 − cos r_i)

    quadratic   w = 0,  h in [0.75, 1]        strongly convex
    wavy        w = ¾,  h = ¼                 not convex (curvature between −½ and 1), but PL

The axes of ψ are those of θ, which is no loss of generality for f of this form. ‖A‖² = ½, so that g is L-smooth in
(v, θ) with L = 3/2. The third is the sine problem of `bome.tasks.sine`, with a minimum of g in every period.

All tensors have a first dimension that counts the runs. Gradients are written out by hand, so that what is measured
does not rest on the differentiation the method itself uses.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from bome.tasks.sine import A as SINE_A
from bome.tasks.sine import C as SINE_C
from bome.tasks.sine import trough

N, M = 4, 3
"""Dimensions of θ and v of the random instances."""

FLAT, WAVE = 0.25, 0.75
"""h and w of the wavy family."""

COUPLING = math.sqrt(0.5)
"""‖A‖."""

SMOOTHNESS = 1.5
"""L of g in (v, θ) for both families: (1 + ‖A‖²) max ψ'', where max ψ'' = 1."""


@dataclass(frozen=True)
class Bed(ABC):
    """Problems side by side, one for each run, whose gradients and inner solutions are known.

    v has shape (..., runs, m) and θ (..., runs, n) in all methods but the losses, which see one run at a time.
    """

    @abstractmethod
    def outer(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """f."""

    @abstractmethod
    def inner(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """g."""

    @abstractmethod
    def outer_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """∇_v f and ∇_θ f."""

    @abstractmethod
    def inner_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """g of each run, up to a constant."""

    @abstractmethod
    def inner_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """∇_v g and ∇_θ g."""

    @abstractmethod
    def products(self, v: Tensor, theta: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
        """∇_v(∇_θ g)ω and ∇_θ(∇_θ g)ω."""

    @abstractmethod
    def attraction(self, v: Tensor, theta: Tensor) -> Tensor:
        """θ◇(v, θ), the minimum of g(v, ·) that gradient descent from θ goes to; θ*(v) where there is only one."""

    @abstractmethod
    def smoothness(self) -> Tensor:
        """L of g for each run."""

    @abstractmethod
    def distance(self, v: Tensor, theta: Tensor) -> Tensor:
        """‖v − v*‖ of each run, v* being the solution (of the basin that θ lies in)."""

    @abstractmethod
    def outer_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """f of each run."""

    def basin(self, v: Tensor, theta: Tensor) -> Tensor:
        """The basin that each coordinate of θ lies in; here there is only one."""
        return torch.zeros_like(theta, dtype=torch.long)

    def data(self) -> Any:
        """What the losses receive as their batch."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def tiled(self, times: int) -> Self:
        """The same problems `times` times in a row."""
        stacked = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: x.repeat(times, *(1,) * (x.dim() - 1)) for name, x in stacked.items()})


@dataclass(frozen=True)
class Residuals(Bed):
    """Quadratic and wavy instances.

    Attributes:
        A: (runs, n, m).
        h: (runs, n).
        w: (runs, 1).
        a: (runs, n).
        b: (runs, m).
    """

    A: Tensor
    h: Tensor
    w: Tensor
    a: Tensor
    b: Tensor

    def outer(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """½‖θ − a‖² + ½‖v − b‖²."""
        *_, a, b = batch
        f: Tensor = 0.5 * ((theta - a).square().sum() + (v - b).square().sum())
        return f

    def inner(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """ψ(θ − Av), up to a constant."""
        matrix, h, w, *_ = batch
        r = theta - _times(matrix, v)
        g: Tensor = (0.5 * h * r * r - w * torch.cos(r)).sum()
        return g

    def outer_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """½‖θ − a‖² + ½‖v − b‖²."""
        return 0.5 * ((theta - self.a).square().sum(-1) + (v - self.b).square().sum(-1))

    def outer_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """(v − b, θ − a)."""
        return v - self.b, theta - self.a

    def inner_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """ψ(θ − Av), without cancellation where it is small."""
        r = theta - _times(self.A, v)
        return (0.5 * self.h * r * r + 2 * self.w * torch.sin(r / 2).square()).sum(-1)

    def inner_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """(−Aᵀψ', ψ')."""
        r = theta - _times(self.A, v)
        slope = self.h * r + self.w * torch.sin(r)
        return -_times(self.A.mT, slope), slope

    def products(self, v: Tensor, theta: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
        """(−Aᵀψ''ω, ψ''ω)."""
        curved = (self.h + self.w * torch.cos(theta - _times(self.A, v))) * omega
        return -_times(self.A.mT, curved), curved

    def attraction(self, v: Tensor, theta: Tensor) -> Tensor:
        """Av."""
        return _times(self.A, v)

    def smoothness(self) -> Tensor:
        """(1 + ‖A‖²) max ψ''."""
        coupling: Tensor = torch.linalg.matrix_norm(self.A, 2)
        return (1 + coupling.square()) * (self.h + self.w).amax(-1)

    def distance(self, v: Tensor, theta: Tensor) -> Tensor:
        """From v*, where (AᵀA + I)v* = Aᵀa + b."""
        left = torch.eye(self.b.shape[-1], dtype=self.b.dtype) + self.A.mT @ self.A
        return norm(v - torch.linalg.solve(left, self.b + _times(self.A.mT, self.a)))

    def pl(self) -> Tensor:
        """κ of each run, the largest with ‖∇_θ g‖² ≥ κ q; for w > 0 by looking at a fine grid."""
        r = torch.linspace(1e-3, 30, 30001, dtype=torch.float64)[:, None]
        wavy = (FLAT * r + WAVE * r.sin()).square() / (0.5 * FLAT * r * r + 2 * WAVE * (r / 2).sin().square())
        return torch.where(self.w[:, 0] > 0, wavy.min(), 2 * self.h.amin(-1))


@dataclass(frozen=True)
class Sines(Bed):
    """f = (v − a)² + ‖θ − a − c‖², g = Σ_i sin(v + θ_i − c), a = c = 2, the same for all runs; v has one entry."""

    def outer(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """f."""
        return (v - SINE_A).square().sum() + (theta - SINE_A - SINE_C).square().sum()

    def inner(self, v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        """g."""
        return torch.sin(v + theta - SINE_C).sum()

    def outer_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """f."""
        return (v - SINE_A).square().sum(-1) + (theta - SINE_A - SINE_C).square().sum(-1)

    def outer_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """∇f."""
        return 2 * (v - SINE_A), 2 * (theta - SINE_A - SINE_C)

    def inner_value(self, v: Tensor, theta: Tensor) -> Tensor:
        """g + n = Σ 2 sin²(half the distance of the phase from its trough)."""
        phase = v + theta - SINE_C
        return (2 * torch.sin((phase - trough(phase)) / 2).square()).sum(-1)

    def inner_gradient(self, v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """∇g, from the distance to the trough, since the cosine is small there."""
        phase = v + theta - SINE_C
        slope = torch.sin(phase - trough(phase))
        return slope.sum(-1, keepdim=True), slope

    def products(self, v: Tensor, theta: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
        """The Hessian of a sine is minus the sine."""
        curved = -torch.sin(v + theta - SINE_C) * omega
        return curved.sum(-1, keepdim=True), curved

    def attraction(self, v: Tensor, theta: Tensor) -> Tensor:
        """The nearest trough."""
        return trough(v + theta - SINE_C) + SINE_C - v

    def smoothness(self) -> Tensor:
        """n + 1."""
        return torch.tensor(3.0, dtype=torch.float64)

    def distance(self, v: Tensor, theta: Tensor) -> Tensor:
        """From the best v of the basin: the mean of a and the C_i − a, C_i being the troughs of the phases."""
        c = trough(v + theta - SINE_C)
        return norm(v - (SINE_A + (c - SINE_A).sum(-1, keepdim=True)) / (1 + c.shape[-1]))

    def data(self) -> Any:
        """None: all runs are of one problem."""
        return None

    def tiled(self, times: int) -> Self:
        """The same."""
        return self

    def basin(self, v: Tensor, theta: Tensor) -> Tensor:
        """k of each coordinate, whose trough is −π/2 + 2kπ."""
        return torch.round((trough(v + theta - SINE_C) + math.pi / 2) / (2 * math.pi)).long()

    def local_value(self, basin: Tensor) -> Tensor:
        """The least f on the minima of g of a basin: with C_i its troughs, min_v (v − a)² + Σ_i (C_i − v − a)²."""
        c = -math.pi / 2 + 2 * math.pi * basin.double()
        v = (SINE_A + (c - SINE_A).sum(-1, keepdim=True)) / (1 + c.shape[-1])
        return (v - SINE_A).square().sum(-1) + (c - v - SINE_A).square().sum(-1)


class Start(NamedTuple):
    """Where the runs begin."""

    v: Tensor
    theta: Tensor

    def tiled(self, times: int) -> "Start":
        """The same starts `times` times in a row."""
        return Start(self.v.repeat(times, 1), self.theta.repeat(times, 1))


def residual_instances(count: int, seed: int = 0) -> Residuals:
    """`count` quadratic instances followed by as many wavy ones; A, a and b have normal entries, ‖A‖ = √½."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(2 * count, *shape, generator=generator, dtype=torch.float64)

    matrix, a, b = normal(N, M), normal(N), normal(M)
    spread = torch.rand(count, N - 2, generator=generator, dtype=torch.float64)
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(count, 2)
    quadratic = 0.75 + 0.25 * torch.cat([ends, spread], dim=1)
    h = torch.cat([quadratic, torch.full((count, N), FLAT, dtype=torch.float64)])
    w = torch.cat([torch.zeros(count, 1), torch.full((count, 1), WAVE)]).double()
    return Residuals(COUPLING * matrix / torch.linalg.matrix_norm(matrix, 2, keepdim=True), h, w, a, b)


def residual_start(bed: Residuals, gap: Tensor, seed: int = 1) -> Start:
    """Random points with q = `gap`, one number for each run; equal instances of different gaps start in one direction.

    The distance along a random direction is found by bisection, as ψ grows along every ray from 0 (ψ' = 0 only there).
    """
    runs = len(gap)
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(runs, M, generator=generator, dtype=torch.float64)
    way = torch.randn(runs, N, generator=generator, dtype=torch.float64)
    way = way / way.norm(dim=-1, keepdim=True)
    low, high = torch.zeros(runs, 1, dtype=torch.float64), torch.full((runs, 1), 1e3, dtype=torch.float64)
    for _ in range(200):
        middle = (low + high) / 2
        above = bed.inner_value(v, bed.attraction(v, v) + middle * way)[:, None] > gap[:, None]
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return Start(v, bed.attraction(v, v) + low * way)


def sine_starts(count: int, seed: int = 2) -> Start:
    """Uniform points of a box that several basins meet."""
    generator = torch.Generator().manual_seed(seed)
    box = torch.rand(count, 3, generator=generator, dtype=torch.float64)
    return Start(10 * box[:, :1] - 3, 14 * box[:, 1:] - 3)


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def norm(x: Tensor) -> Tensor:
    """‖x‖ over the last dimension."""
    return x.square().sum(-1).sqrt()
