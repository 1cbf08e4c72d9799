"""One BOME step on a 50,000 × 784 → 10 softmax problem against the bare cost of its T+2 evaluations."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper
from bome.oracles import OracleName
from timings.table import TIMING_HEADER, show, timing_row
from timings.timing import compare

N, D, C, N_VAL = 50_000, 784, 10, 5_000


def data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random images and labels: only the cost matters here."""
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(N, D, generator=generator),
        torch.randint(C, (N,), generator=generator),
        torch.randn(N_VAL, D, generator=generator),
        torch.randint(C, (N_VAL,), generator=generator),
    )


def main(steps: int = 10) -> None:
    """Measure and print."""
    x, y, x_val, y_val = data()

    def inner(v: Tensor, w: Tensor, _: object) -> Tensor:
        loss = cross_entropy(x @ w.T, y, reduction="none")
        return (v.clamp(0, 1) * loss).mean() + 0.001 * (w * w).sum()

    def outer(v: Tensor, w: Tensor, _: object) -> Tensor:
        return cross_entropy(x_val @ w.T, y_val)

    def stepper(oracle: OracleName) -> Stepper:
        v, w = torch.full((N,), 0.5), torch.zeros(C, D)
        problem = Problem(outer, inner, v, w)
        return Stepper(problem, BOME(GradientDescent(0.01, steps)), SGD([v], 100.0), SGD([w], 0.01), oracle=oracle)

    v, w = torch.full((N,), 0.5, requires_grad=True), torch.zeros(C, D, requires_grad=True)

    def bare() -> None:
        torch.autograd.grad(inner(v, w, None), (v, w))
        for _ in range(steps - 1):
            torch.autograd.grad(inner(v.detach(), w, None), w)
        torch.autograd.grad(inner(v, w.detach(), None), v)
        torch.autograd.grad(outer(v, w, None), w)

    candidates = {"bare T+2 evaluations": bare}
    kinds: tuple[OracleName, ...] = ("autograd", "backward")
    steppers = {oracle: stepper(oracle) for oracle in kinds}
    for oracle, each in steppers.items():
        candidates[f"BOME step, {oracle}"] = each.step  # type: ignore[assignment]
    result = compare(candidates, rounds=9)
    rows = [timing_row(name, t, "≤ 1.05" if "BOME" in name else "") for name, t in result.items()]
    show(f"softmax {N:,} × {D} → {C}, T = {steps}", TIMING_HEADER, rows)
    counts, k = steppers["autograd"].counts, steppers["autograd"].k
    show(
        "evaluations per step",
        ("loss", "per step", "paper's algorithm"),
        [("g", f"{counts['g'] / k:g}", f"T+1 = {steps + 1}"), ("f", f"{counts['f'] / k:g}", "1")],
    )
