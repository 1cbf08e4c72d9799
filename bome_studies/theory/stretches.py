"""BOME on many runs at once, and everything the theory speaks of measured exactly at each of their steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from bome_studies.theory.instances import Bed, Start, norm

CHUNK = 250
"""Steps whose points are kept before they are measured together."""


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
        "slack": _ratio(_dot(guess, part.delta) - barrier, norm(guess) * norm(df) + barrier),
        "size": norm(guess),
        "error": norm(dq - guess),
        "error_bound": bed.smoothness() * norm(ahead - end),
        "residual": norm(df + torch.cat(bed.products(v, theta, omega), dim=-1)),
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


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where y is 0."""
    return torch.where(y > 0, x / torch.where(y > 0, y, 1.0), 0.0)
