"""The bilevel problem of learned penalties: one gate per feature, per group, or for all.

With features x∘s, a penalty r on all coefficients γ is a penalty r/sⱼ² on the coefficient sⱼγⱼ of feature j. The gates
s are the outer variable: the curvature of the inner problem stays bounded, and a gate of 0 removes its feature. The
inner variable holds one model for each fold, fitted to the rows outside of it; the outer loss is that of the rows
inside, plus a small price on open gates, without which features of pure noise that help by chance stay in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from bome._typing import Array, Matrix
from bome.estimators.models import as_tensor, curvature
from bome.inner import GradientDescent
from bome.loop import Result, run
from bome.methods import BOME
from bome.problem import Problem
from bome.projections import box
from bome.stopping import MaxSteps

WIDEST = 1.5
"""The largest gate: a penalty of about half the common one."""
LOWEST = 1e-6
"""Gates below this count as this much in the penalty, so that it stays finite."""
PRICE = 0.2
"""The price of gates that are all 1, relative to the outer loss at the start."""
RATE = 0.05
"""The step of a gate, by Adam: in 60 steps it can go from 1 to anywhere."""
WARM_UP = 100

RowLoss = Callable[[Tensor, Tensor], Tensor]
"""(outputs of shape (rows, outputs), targets) -> loss of each row."""


@dataclass(frozen=True)
class Job:
    """Rows and the kind of model to fit to them.

    Attributes:
        x: standardised features.
        targets: class numbers, or standardised values in float32.
        outputs: numbers a model gives per row.
        loss: of each row.
    """

    x: Matrix
    targets: Array
    outputs: int
    loss: RowLoss

    def some(self, which: Array) -> "Job":
        """The same job on some of the rows."""
        return Job(self.x[which], self.targets[which], self.outputs, self.loss)


@dataclass(frozen=True)
class Gates:
    """What was learned: the gates, one per group, and the run behind them."""

    values: Array
    result: Result


def learn_gates(job: Job, groups: Array, ridge: float, parts: list[tuple[Array, Array]], steps: int) -> Gates:
    """Learn a gate for each group of features by BOME.

    Args:
        job: the rows.
        groups: the number of the group of each feature, from 0.
        ridge: the common penalty r.
        parts: masks (to fit, to hold out) of the folds.
        steps: of BOME.
    """
    dtype = torch.float64  # look-aheads from a solved inner problem gain less than float32 can tell
    x, targets, index = as_tensor(job.x, dtype), torch.as_tensor(job.targets), torch.as_tensor(groups)
    models = len(parts)
    fit, held = (_shares(masks) for masks in zip(*parts, strict=True))
    gates = torch.ones(int(groups.max()) + 1, dtype=dtype)
    theta = {
        "coef": torch.zeros(x.shape[1], models * job.outputs, dtype=dtype),
        "intercept": torch.zeros(models * job.outputs, dtype=dtype),
    }

    def losses(s: Tensor, model: Any) -> Tensor:
        coef = s[index][:, None] * model["coef"]
        out = (torch.sparse.mm(x, coef) if x.is_sparse else x @ coef) + model["intercept"]
        return torch.stack([job.loss(part, targets) for part in out.split(job.outputs, dim=1)])

    def inner(s: Tensor, model: Any, batch: None) -> Tensor:
        penalty: Tensor = 0.5 * ridge * (model["coef"] ** 2).sum()
        return (fit * losses(s, model)).sum() + penalty

    def validation(s: Tensor, model: Any) -> Tensor:
        return (held * losses(s, model)).sum() / models

    # A fold sees a part of the rows, whose curvature is at most that of all by the inverse of their share.
    share = min(float(mask.mean()) for mask, _ in parts)
    rate = 1 / (2 * WIDEST**2 * curvature(job.x, 0) / share + ridge)
    warm_up(lambda: inner(gates, theta, None), list(theta.values()), rate)
    price = PRICE * float(validation(gates, theta))

    def outer(s: Tensor, model: Any, batch: None) -> Tensor:
        return validation(s, model) + price * s.mean()

    result = run(
        Problem(outer, inner, gates, theta, project_v=box(0, WIDEST)),
        BOME(GradientDescent(rate, 5), eta=0.5, counts="all"),  # as it was measured
        outer_opt=Adam([gates], RATE),
        inner_opt=SGD(list(theta.values()), rate),
        stop=MaxSteps(steps),
        refit=False,
    )
    return Gates(gates.numpy().astype(np.float64), result)


def warm_up(loss: Callable[[], Tensor], leaves: list[Tensor], rate: float) -> None:
    """Bring the inner variable near its solution before the first step."""
    optimiser = SGD(leaves, rate, momentum=0.9)
    for _ in range(WARM_UP):
        with torch.enable_grad():
            for leaf in leaves:
                leaf.requires_grad_()
            grads = torch.autograd.grad(loss(), leaves)
        for leaf, grad in zip(leaves, grads, strict=True):
            leaf.requires_grad_(False)
            leaf.grad = grad
        optimiser.step()
    for leaf in leaves:
        leaf.grad = None


def penalties(gates: Array, ridge: float) -> Array:
    """The penalty on the coefficient of each gated feature."""
    return np.asarray(ridge / np.maximum(gates, LOWEST) ** 2)


def _shares(masks: Any) -> Tensor:
    return torch.as_tensor(np.stack([mask / mask.sum() for mask in masks]))
