"""A small problem with minibatches: penalties of a regression whose last features are noise."""

from typing import Any

import torch
from torch import Tensor

from bome import Data, Minibatches, Problem, box


def penalties(dtype: torch.dtype = torch.float64) -> tuple[Problem, Data]:
    """24 rows with noise, 6 features of which the first two count; f has 60 rows without noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(84, 6, generator=generator, dtype=torch.float64).to(dtype)
    clean = x[:, 0] - x[:, 1]
    y = clean + torch.randn(84, generator=generator, dtype=torch.float64).to(dtype)

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        rows, targets = batch.data
        miss: Tensor = (rows @ theta - targets).square().mean() + (v.exp() * theta.square()).sum()
        return miss

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        rows, targets = batch.data
        miss: Tensor = (rows @ theta - targets).square().mean()
        return miss

    problem = Problem(
        outer, inner, torch.full((6,), -3.0, dtype=dtype), torch.zeros(6, dtype=dtype), project_v=box(-6, 2)
    )
    return problem, Data(outer=Minibatches((x[24:], clean[24:]), 20), inner=Minibatches((x[:24], y[:24]), 8))
