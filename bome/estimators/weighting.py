"""The bilevel problem of hyper-cleaning: a weight per row, so that the model of the weighted rows suits trusted rows.

The weight of row i is bᵢ vᵢ: bᵢ is what the belief in its label allows, vᵢ in [0, 1] is learned by BOME. The inner loss
g is the weighted cross entropy of the doubtful rows, the outer loss f that of the trusted rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from bome._typing import Array
from bome.data.streams import Batch, Constant, Data, Minibatches
from bome.estimators.models import Fitter, Model, as_tensor
from bome.estimators.rows import Rows
from bome.loop import Result, run
from bome.methods import BOME
from bome.per_sample import PerSample
from bome.problem import Problem
from bome.projections import box
from bome.stopping import Progress

FULL_BATCH = 4_000_000
"""Up to this many entries of a dense feature matrix, a step looks at all rows."""
VISITS = 30
"""How often each row is looked at, at most."""
MOST_STEPS = 400
SPEED = 0.2
"""How far a weight moves for a loss difference of 1 and λ = 1, over 30 visits."""


@dataclass
class Plateau:
    """After `most` steps, or when the outer loss has fallen by less than a hundredth from one window to the next.

    Attributes:
        most: steps at most.
        window: steps whose mean loss is compared with that of the steps before.
        seen: outer losses so far; a rule serves one run.
    """

    most: int
    window: int
    seen: list[float] = field(default_factory=list)

    def __call__(self, progress: Progress) -> str | None:
        """Why the run is over, or None to go on."""
        if progress.info is not None:
            self.seen.append(float(progress.info.f))
        if progress.step >= self.most:
            return f"{self.most} steps done"
        last, before = self.seen[-self.window :], self.seen[-2 * self.window : -self.window]
        if len(self.seen) > 2 * self.window and np.mean(last) > 0.99 * np.mean(before):
            return "the loss on the trusted rows has settled"
        return None


@dataclass(frozen=True)
class Weighting:
    """The factors vᵢ that solve the bilevel problem, and the run behind them."""

    factors: Array
    result: Result


def learn_factors(
    rows: Rows,
    fitter: Fitter,
    start: Model,
    belief: Array,
    first: Array,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Weighting:
    """Learn the factors by BOME.

    Args:
        rows: doubtful and trusted rows.
        fitter: of the model.
        start: the model to begin with: one fitted to the weighted rows.
        belief: the largest weight of each row.
        first: where the factors begin.
        seed: of the minibatches.
        progress: hears how many steps are done, and of how many at most.
    """
    n = len(rows.labels)
    live = fitter.live(start, rows.x, seed)
    dtype = next(live.module.parameters()).dtype
    table = PerSample(n, dtype=dtype)
    table.values.copy_(torch.as_tensor(first))
    problem = Problem(_outer(live.ridge), _inner(live.ridge * float(belief.mean())), table, live.module, box(0, 1))
    tensors = as_tensor(rows.x, dtype), torch.as_tensor(rows.labels), torch.as_tensor(belief, dtype=dtype)
    size = n if sparse.issparse(rows.x) else min(n, max(1, FULL_BATCH // max(1, rows.x.shape[1])))
    stream = Constant(Batch(tensors, torch.arange(n), 0)) if size == n else Minibatches(tensors, size, seed)
    steps = min(MOST_STEPS, VISITS * -(-n // size))
    rate = SPEED * size * VISITS / (steps * size / n)
    result = run(
        problem,
        BOME(live.inner, eta=0.5, counts="all"),  # as it was measured
        outer_opt=SGD([table.values], rate),
        inner_opt=live.optimiser,
        data=Data(
            inner=stream, outer=Constant((as_tensor(rows.trusted_x, dtype), torch.as_tensor(rows.trusted_labels)))
        ),
        stop=Plateau(steps, max(5, steps // 6)),
        log_every=max(1, steps // 100),
        progress=None if progress is None else lambda now: progress(now.step, steps),
        refit=False,
    )
    return Weighting(table.values.numpy().astype(np.float64), result)


def _penalty(model: nn.Module, ridge: float) -> Tensor:
    squares = [(p * p).sum() for p in model.parameters() if p.dim() > 1]
    return 0.5 * ridge * torch.stack(squares).sum() if squares else torch.zeros(())


def _inner(ridge: float) -> Callable[[Any, Any, Any], Tensor]:
    def inner(v: Tensor, model: nn.Module, batch: Batch) -> Tensor:
        x, labels, belief = batch.data
        return (v * belief * cross_entropy(model(x), labels, reduction="none")).mean() + _penalty(model, ridge)

    return inner


def _outer(ridge: float) -> Callable[[Any, Any, Any], Tensor]:
    def outer(v: Tensor, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, labels = batch
        return cross_entropy(model(x), labels) + _penalty(model, ridge)

    return outer
