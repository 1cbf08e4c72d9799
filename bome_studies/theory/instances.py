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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import vmap
from torch.optim import SGD

from bome.inner import GradientDescent
from bome.methods import BOME, Batched, Compiled
from bome.oracles import FuncOracle
from bome.problem import Batches, Problem
from bome.stepper import Stepper
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

TINY = 1e-6
"""Gradients of this size have a relative rounding error of 1e-9 or so, as the points are of size 1 to 10."""

CHUNK = 250
"""Steps whose points are kept before they are measured together."""


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
        return _norm(v - torch.linalg.solve(left, self.b + _times(self.A.mT, self.a)))

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
        return _norm(v - (SINE_A + (c - SINE_A).sum(-1, keepdim=True)) / (1 + c.shape[-1]))

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


@dataclass(frozen=True)
class Spec:
    """The settings of BOME that runs of one batch share.

    Attributes:
        steps: T.
        lr: α.
        eta: η.
        decay: whether step sizes fall like (k + 1)^(-1/2).
    """

    steps: int
    lr: float
    eta: float = 0.5
    decay: bool = False


class Stretch(NamedTuple):
    """Some consecutive steps of all runs; the first dimension counts the steps.

    Attributes:
        k: the number of each step.
        v: where each step began.
        theta: likewise.
        after: where it ended.
        delta: the directions of v and θ side by side, from the moves that were made.
    """

    k: NDArray[np.int64]
    v: Tensor
    theta: Tensor
    after: Start
    delta: Tensor


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small are slower with more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def drive(bed: Bed, start: Start, rates: Tensor, spec: Spec, steps: int, compiled: bool) -> Iterator[Stretch]:
    """BOME on all runs at once for `steps` steps, each run with ξ of its own for both v and θ."""
    scale = tuple(rates.tolist())
    bome = BOME(GradientDescent(spec.lr, spec.steps), eta=spec.eta)
    method = Batched(bome, own_data=bed.data() is not None, v_scale=scale, theta_scale=scale)
    problem = Problem(bed.outer, bed.inner, start.v.clone(), start.theta.clone())
    batches = Batches(inner=(bed.data(),), outer=(bed.data(),))
    lr = torch.ones((), dtype=torch.float64)  # a tensor: a compiled step is not traced again when it changes
    torch.compiler.reset()
    stepper = Stepper(
        problem,
        Compiled(method, backend="aot_eager") if compiled else method,
        SGD(problem.v.leaves, lr=lr),
        SGD(problem.theta.leaves, lr=lr),
        oracle="func",
    )
    (v,), (theta,) = problem.v.leaves, problem.theta.leaves
    for first in range(0, steps, CHUNK):
        ks = np.arange(first, min(first + CHUNK, steps))
        factors = (ks + 1.0) ** -0.5 if spec.decay else np.ones(len(ks))
        points = [torch.cat([v, theta], dim=-1).detach()]
        for factor in factors:
            lr.fill_(float(factor))
            stepper.step_on(batches)
            points.append(torch.cat([v, theta], dim=-1).detach())
        path = torch.stack(points)
        taken = torch.from_numpy(factors)[:, None, None] * rates[:, None]
        v_path, theta_path = torch.tensor_split(path, (v.shape[-1],), dim=-1)
        after = Start(v_path[1:], theta_path[1:])
        yield Stretch(ks, v_path[:-1], theta_path[:-1], after, (path[:-1] - path[1:]) / taken)


def measure(bed: Bed, part: Stretch, spec: Spec) -> dict[str, Tensor]:
    """Everything the theory speaks of, exactly, at each step of each run.

    Returns:
        f: f.
        kkt: 𝒦 (𝒦◇ where g has several basins).
        q: q, or q◇.
        distance: ‖v − v*‖.
        lam: λ_k.
        slack: (⟨∇q̂, δ⟩ − η‖∇q̂‖²) / (‖∇q̂‖(‖∇f‖ + η‖∇q̂‖)) for the δ of the move that was made: relative to the terms it
            is the difference of, ⟨∇q̂, ∇f⟩ + λ‖∇q̂‖² − η‖∇q̂‖².
        size: ‖∇q̂‖.
        error: ‖∇q − ∇q̂‖.
        error_bound: L‖θ^(T) − θ*‖.
        residual: ‖∇f + ∇(∇_θ g)ω‖ with ω = λ_k(θ_k − θ^(T)), which Proposition 1 says goes to 0.
        jumped: 1 where the step led to another basin.
    """
    v, theta = part.v, part.theta
    end, ahead = bed.attraction(v, theta), descended(bed, v, theta, spec)[-1]
    g_v, g_theta = bed.inner_gradient(v, theta)
    df = torch.cat(bed.outer_gradient(v, theta), dim=-1)
    dq = torch.cat([g_v - bed.inner_gradient(v, end)[0], g_theta], dim=-1)
    guess = torch.cat([g_v - bed.inner_gradient(v, ahead)[0], g_theta], dim=-1)
    q = bed.inner_value(v, theta) - bed.inner_value(v, end)
    best = _ratio(-_dot(df, dq), _dot(dq, dq)).clamp(min=0)
    lam = (spec.eta - _ratio(_dot(df, guess), _dot(guess, guess))).clamp(min=0) * (_dot(guess, guess) > 0)
    barrier = spec.eta * _dot(guess, guess)
    omega = lam[..., None] * (theta - ahead)
    return {
        "f": bed.outer_value(v, theta),
        "kkt": (df + best[..., None] * dq).square().sum(-1) + q,
        "q": q,
        "distance": bed.distance(v, theta),
        "lam": lam,
        "slack": _ratio(_dot(guess, part.delta) - barrier, _norm(guess) * _norm(df) + barrier),
        "size": _norm(guess),
        "error": _norm(dq - guess),
        "error_bound": bed.smoothness() * _norm(ahead - end),
        "residual": _norm(df + torch.cat(bed.products(v, theta, omega), dim=-1)),
        "jumped": (bed.basin(v, theta) != bed.basin(*part.after)).any(-1).double(),
    }


def descended(bed: Bed, v: Tensor, theta: Tensor, spec: Spec) -> list[Tensor]:
    """θ^(0), ..., θ^(T) by the gradients written out here."""
    path = [theta]
    for _ in range(spec.steps):
        path.append(path[-1] - spec.lr * bed.inner_gradient(v, path[-1])[1])
    return path


def looked_ahead(bed: Bed, start: Start, spec: Spec) -> list[Tensor]:
    """θ^(0), ..., θ^(T) by the inner map and the oracle that the method uses."""
    oracle = FuncOracle(Problem(bed.outer, bed.inner, start.v, start.theta))
    inner = GradientDescent(spec.lr, 1)

    def one(v: Tensor, theta: Tensor, data: Any) -> Tensor:
        return oracle.descend((v,), (theta,), inner, (data,))[0]

    advance: Callable[..., Tensor] = vmap(one, in_dims=(0, 0, None if bed.data() is None else 0))
    path = [start.theta]
    for _ in range(spec.steps):
        path.append(advance(start.v, path[-1], bed.data()))
    return path


class Tally:
    """What is kept of the runs: averages, minima, totals and last values up to the end of each, and thinned curves.

    Args:
        ends: K of each run; later steps do not count.
        grid: the steps at which curves are kept.
    """

    def __init__(self, ends: NDArray[np.int64], grid: NDArray[np.int64]) -> None:
        self._ends, self._grid = ends, grid
        self._sums: dict[str, NDArray[np.float64]] = {}
        self._counts = np.zeros(len(ends))
        self._kept: dict[str, list[NDArray[np.float64]]] = {}
        self.least: dict[str, NDArray[np.float64]] = {}
        self.last: dict[str, NDArray[np.float64]] = {}
        self.total: dict[str, NDArray[np.float64]] = {}
        self.steps: list[int] = []

    def add(self, k: NDArray[np.int64], measured: dict[str, Tensor]) -> None:
        """Take in the measurements of consecutive steps."""
        column = k[:, None]
        late = (column >= np.floor(0.8 * self._ends)) & (column <= self._ends)
        kept = np.isin(k, self._grid)
        self._counts += late.sum(0)
        self.steps += k[kept].tolist()
        for name, tensor in measured.items():
            values = tensor.numpy()
            counted = column <= self._ends
            least = np.where(counted, values, np.inf).min(0)
            self.least[name] = np.minimum(self.least.get(name, np.inf), least)
            self.total[name] = self.total.get(name, 0.0) + np.where(counted, values, 0.0).sum(0)
            self._sums[name] = self._sums.get(name, 0.0) + np.where(late, values, 0.0).sum(0)
            at_end = np.where(column == self._ends, values, 0.0).sum(0)
            self.last[name] = self.last.get(name, 0.0) + at_end
            self._kept.setdefault(name, []).append(values[kept])

    def average(self, name: str) -> NDArray[np.float64]:
        """The mean over the last 20 % of the steps of each run."""
        mean: NDArray[np.float64] = self._sums[name] / self._counts
        return mean

    def curve(self, name: str) -> NDArray[np.float64]:
        """The values at the steps of the grid, (steps, runs)."""
        return np.concatenate(self._kept[name])


@dataclass
class Checks:
    """The two inequalities that must hold at every step.

    Attributes:
        steps: how many steps of single runs were looked at.
        active: at how many of them λ > 0.
        error: the largest ‖∇q − ∇q̂‖ / (L‖θ^(T) − θ*‖), where the bound is not rounding error.
        tiny: at how many ‖∇q̂‖ is so small that rounding decides its direction; there the barrier is not judged.
        slack: the least relative slack of the barrier inequality.
        equality: the largest absolute relative slack where λ > 0.
    """

    steps: int = 0
    active: int = 0
    tiny: int = 0
    error: float = 0.0
    slack: float = math.inf
    equality: float = 0.0

    def add(self, measured: dict[str, Tensor]) -> None:
        """Take in the measurements of some steps."""
        bound, active = measured["error_bound"], measured["lam"] > 0
        ratio = torch.where(bound > 1e-10, measured["error"] / bound.clamp(min=1e-10), 0.0)
        tiny = measured["size"] < TINY
        slack = torch.where(tiny, 0.0, measured["slack"])
        self.steps += bound.numel()
        self.active += int(active.sum())
        self.tiny += int(tiny.sum())
        self.error = max(self.error, float(ratio.max()))
        self.slack = min(self.slack, float(slack.min()))
        self.equality = max(self.equality, float(torch.where(active, slack.abs(), 0.0).max()))


class Fit(NamedTuple):
    """A number over instances: its mean, its standard error, and how many there are."""

    mean: float
    se: float
    n: int

    def __str__(self) -> str:
        digits = 2 if self.se >= 0.01 or self.se <= 0 else min(4, math.ceil(-math.log10(self.se)))
        return f"{self.mean:.{digits}f} ± {self.se:.{digits}f}"


def spread(values: NDArray[np.float64]) -> Fit:
    """Mean and standard error of numbers, one for each instance."""
    count = len(values)
    return Fit(float(values.mean()), float(values.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0, count)


def slopes(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares slope of each column of y in x."""
    return np.asarray(np.polyfit(x, y, 1)[0])


def power(x: NDArray[np.float64], y: NDArray[np.float64]) -> Fit:
    """The exponent p of y ∝ x^p, fitted for each instance; y has shape (len(x), instances)."""
    return spread(slopes(np.log(x), np.log(y)))


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)


def _norm(x: Tensor) -> Tensor:
    return _dot(x, x).sqrt()


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where y is 0."""
    return torch.where(y > 0, x / torch.where(y > 0, y, 1.0), 0.0)
