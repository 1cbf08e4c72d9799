"""`bome-qp`: on BOLIB, and on 100,000 entries of θ with three inner constraints and a solution in closed form.

The large problem, also with noise in the gradients:

    f = ½‖θ − b‖² + ½‖v − w‖²,   g = ½ Σ d_j (θ_j − a_j − (Bv)_j)²,   h = Cθ − Ev − e

Where the constraints in S are active, θ*(v) = a + Bv − D⁻¹C_Sᵀμ with μ = (C_S D⁻¹C_Sᵀ)⁻¹(C_S(a + Bv) − E_S v − e_S) is
affine in v, so that the best v solves a small linear system. A point counts where μ ≥ 0 and all constraints hold; as F
has kinks where an entry of μ becomes 0, the best points of these edges count, too.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD

from bome import Problem, run
from bome.inner import GradientDescent
from bome.methods import BOMEQP
from bome.stopping import FirstOf, MaxSeconds, MaxSteps
from bome.tasks.bolib import RECORDS
from bome.tasks.bolib.judge import judge
from bome_studies.bolib.contenders import Stepped
from timings.table import show

ENTRIES, OF_V, CONSTRAINTS = 100_000, 5, 3
STEPS, SECONDS, EVALUATIONS = 400, 30.0, 20_000
DTYPE = torch.float64


@dataclass(frozen=True)
class Instance:
    """The numbers of the problem, drawn with a seed.

    Attributes:
        entries: of θ.
        seed: what is drawn with.
    """

    entries: int = ENTRIES
    seed: int = 0

    def numbers(self) -> tuple[Tensor, ...]:
        """a, b, w, d, B, C, E, e: norms do not depend on how many entries there are."""
        draw, n = torch.Generator().manual_seed(self.seed), self.entries

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, dtype=DTYPE)

        small = n**-0.5
        a, B, C = normal(n) * small, normal(n, OF_V) * small, normal(CONSTRAINTS, n) * small  # noqa: N806
        b = a + normal(OF_V) @ B.T + normal(CONSTRAINTS) @ C
        d = 1 + 9 * torch.rand(n, generator=draw, dtype=DTYPE)
        return a, b, normal(OF_V), d, B, C, 0.5 * normal(CONSTRAINTS, OF_V), C @ a - 0.3

    def problem(self, noise: float = 0.0) -> Problem:
        """From θ = 0 and v = 0; gradients of f and g have random vectors added, of this part of their length."""
        a, b, w, d, B, C, E, e = self.numbers()  # noqa: N806
        draw = torch.Generator().manual_seed(self.seed + 1)

        def noisy(x: Tensor) -> Tensor:
            return _Noisy.apply(x, noise, draw) if noise else x  # type: ignore[no-untyped-call]

        def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
            v, theta = noisy(v), noisy(theta)
            return 0.5 * (theta - b).square().sum() + 0.5 * (v - w).square().sum()

        def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
            v, theta = noisy(v), noisy(theta)
            return 0.5 * (d * (theta - a - B @ v).square()).sum()

        return Problem(
            outer,
            inner,
            torch.zeros(OF_V, dtype=DTYPE),
            torch.zeros(self.entries, dtype=DTYPE),
            inner_constraints=lambda v, theta, batch: C @ theta - E @ v - e,
        )

    def solution(self) -> tuple[Tensor, Tensor]:
        """(v, θ) with the lowest f: of all sets of active constraints, some of them at the edge of being active."""
        a, b, w, d, B, C, E, e = self.numbers()  # noqa: N806
        found = []
        for S in _subsets(range(CONSTRAINTS)):  # noqa: N806
            low = C[S] / d
            by_v, at_0 = torch.linalg.solve(low @ C[S].T, torch.column_stack([C[S] @ B - E[S], C[S] @ a - e[S]])).split(
                [OF_V, 1], dim=1
            )  # μ = by_v v + at_0
            M, start = B - low.T @ by_v, a - low.T @ at_0[:, 0]  # noqa: N806  # θ*(v) = start + M v
            for K in _subsets(range(len(S))):  # noqa: N806  # those with μ = 0
                square, edge = M.T @ M + torch.eye(OF_V, dtype=DTYPE), by_v[K]
                both = torch.cat([torch.cat([square, edge.T], 1), torch.nn.functional.pad(edge, (0, len(K)))])
                v = torch.linalg.solve(both, torch.cat([M.T @ (b - start) + w, -at_0[K, 0]]))[:OF_V]
                theta = start + M @ v
                if bool((by_v @ v + at_0[:, 0] > -1e-9).all()) and bool((C @ theta - E @ v - e < 1e-9).all()):
                    found.append((float(self.problem().outer(v, theta, None)), v, theta))
        return min(found, key=lambda each: each[0])[1:]


def _subsets(numbers: Sequence[int]) -> Iterator[list[int]]:
    yield from (list(each) for size in range(len(numbers) + 1) for each in combinations(numbers, size))


class _Noisy(torch.autograd.Function):
    """x; its gradient has a random vector added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, noise: float, draw: torch.Generator) -> Tensor:
        ctx.noise, ctx.draw = noise, draw
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        random = torch.randn(grad.shape, generator=ctx.draw, dtype=grad.dtype)
        return grad + ctx.noise * grad.norm() / random.norm() * random, None, None


@dataclass(frozen=True)
class Outcome:
    """Of a run.

    Attributes:
        error: how far F(v, θ) is from the right one, relative to it.
        violation: of the constraints.
        distance: how far v is from the right one.
        seconds: of the run, with its certificate.
        cpu: likewise, of all threads.
        steps: how many.
    """

    error: float
    violation: float
    distance: float
    seconds: float
    cpu: float
    steps: int


def solved(instance: Instance, noise: float = 0.0, steps: int = STEPS, seconds: float = SECONDS) -> Outcome:
    """`bome-qp` with the settings that one would take first."""
    problem, exact = instance.problem(noise), instance.problem()
    v, theta = instance.solution()
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the verdict of noisy inner steps
        result = run(
            problem,
            BOMEQP(GradientDescent(lr=0.1, steps=10)),
            outer_opt=SGD(problem.v.leaves, 0.1),
            stop=FirstOf((MaxSteps(steps), MaxSeconds(seconds))),
        )
    taken, used = time.perf_counter() - start, time.process_time() - cpu
    right, found = float(exact.outer(v, theta, None)), float(exact.outer(problem.v.value, problem.theta.value, None))
    limits: Any = exact.constraints.inner_constraints
    over = limits(problem.v.value, problem.theta.value, None)
    away = float((problem.v.value - v).norm())
    return Outcome(abs(found - right) / abs(right), float(over.max()), away, taken, used, result.steps)


def main() -> None:
    """Measure and print."""
    rows = []
    for noise in (0.0, 0.1):
        for seed in range(3):
            o = solved(Instance(seed=seed), noise)
            rows.append(
                (f"noise {noise:.0%}, seed {seed}", f"{o.error:.2%}", f"{o.violation:.1e}", f"{o.distance:.2g}",
                 str(o.steps), f"{o.seconds:.1f}", f"{o.cpu:.1f}")
            )  # fmt: skip
    header = ("bome-qp", "F off by", "violation", "v off by", "steps", "seconds", "CPU seconds")
    show(f"{ENTRIES:,} entries of θ, {CONSTRAINTS} inner constraints", header, rows)


def bolib() -> None:
    """The problems of BOLIB with constraints, with the settings that one would take first."""
    rows, solutions = [], 0
    for record in (record for record in RECORDS.values() if record.constrained):
        start = time.process_time()
        (answer,) = Stepped("bome-qp").answers(record, (EVALUATIONS,), 0)
        judgement = judge(record, answer.x, answer.y)
        solutions += judgement.solved()
        found = (f"{judgement.error:.1e}", f"{judgement.gap:.1e}", f"{judgement.violation:.1e}")
        rows.append((record.name, *found, str(judgement.solved()), f"{time.process_time() - start:.1f}"))
    header = ("problem", "F off by", "g off by", "violation", "solved", "CPU seconds")
    show(f"bome-qp: {solutions} of {len(rows)} within {EVALUATIONS:,} evaluations", header, rows)
