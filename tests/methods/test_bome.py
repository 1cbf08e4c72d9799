"""Variants of BOME against Algorithm 1 by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper
from bome.oracles import OracleName
from bome.problem import Batches

T, ALPHA, ETA = 3, 0.1, 5.0


def inner(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
    return (v.exp() * (theta - batch).square()).sum() + 0.1 * theta.pow(4).sum()


def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    return (theta - 1).square().sum() + 0.1 * (v * theta).sum()


@pytest.mark.parametrize("oracle", ["autograd", "func", "backward"])
def test_apart_measures_the_gap_on_a_batch_that_no_inner_step_has_seen(oracle: OracleName) -> None:
    start = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor([0.5, -1.0], dtype=torch.float64)
    batches = [torch.tensor([x, -0.3 * x], dtype=torch.float64) for x in (1.0, -2.0, 0.5, 3.0)]

    v, theta = (x.clone().requires_grad_() for x in start)
    ahead = theta
    for batch in batches[1:]:
        ahead = (ahead - ALPHA * torch.autograd.grad(inner(v, ahead, batch), ahead)[0]).detach().requires_grad_()
    gap = inner(v, theta, batches[0]) - inner(v, ahead.detach(), batches[0])
    dq = torch.cat(torch.autograd.grad(gap, (v, theta)))
    df = torch.cat(torch.autograd.grad(outer(v, theta, None), (v, theta)))
    lam = max((ETA * dq @ dq - df @ dq) / (dq @ dq), torch.tensor(0.0))
    step = 0.01 * (df + lam * dq)
    assert lam > 0

    v, theta = (x.clone() for x in start)
    method = BOME(GradientDescent(ALPHA, T), eta=ETA, draw="apart")
    stepper = Stepper(Problem(outer, inner, v, theta), method, SGD([v], 0.01), SGD([theta], 0.01), oracle)
    info = stepper.step_on(Batches(tuple(batches), (None,)))
    torch.testing.assert_close(torch.cat((v, theta)), torch.cat(start) - step, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(info.q, gap.detach())
    assert stepper.counts == {"g": T + 2, "f": 1}
