"""A problem of your own, with a solution known in closed form: how far is the answer from it?"""

import torch
from torch import Tensor

import bome

torch.manual_seed(0)
a, b = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
c, d = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, dtype=torch.float64)


def inner(v: Tensor, theta: Tensor, batch: None) -> Tensor:
    """g: ridge regression with a penalty for each coefficient."""
    return (a @ theta - b).square().mean() + (v.exp() * theta.square()).sum()


def outer(v: Tensor, theta: Tensor, batch: None) -> Tensor:
    """f: the error on other data."""
    return (c @ theta - d).square().mean()


def solution(v: Tensor) -> Tensor:
    """θ*(v), which this problem has in closed form."""
    theta: Tensor = torch.linalg.solve(a.T @ a / 6 + torch.diag(v.exp()), a.T @ b / 6)
    return theta


def problem() -> bome.Problem:
    """With fresh variables."""
    return bome.Problem(
        outer,
        inner,
        v=torch.full((3,), -2.0, dtype=torch.float64),
        theta=torch.zeros(3, dtype=torch.float64),
        project_v=bome.box(-5, 1),
    )


method = bome.BOME(bome.GradientDescent(lr=0.1, steps=20))
solved = problem()
result = bome.run(
    solved,
    method,
    outer_opt=torch.optim.SGD(solved.v.leaves, lr=0.2),
    stop=bome.MaxSteps(300),
)

v = solved.v.leaves[0]
start = torch.full_like(v, -2.0)
print(f"f at the exact inner solution: {outer(start, solution(start), None):.4f} before, ", end="")
print(f"{outer(v, solution(v), None):.4f} after; v = {v.tolist()}; {result.certificate.verdict}")
