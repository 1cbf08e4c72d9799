"""The models an estimator fits: softmax regression or a network of the user's, behind one interface."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from bome._typing import Array, Matrix
from bome.data.streams import Minibatches
from bome.errors import ProblemError
from bome.estimators.softmax import Affine, fit_softmax
from bome.inner import AdamDescent, GradientDescent, InnerMap

BATCH = 128
"""Rows in a minibatch of a network."""
NOISE_RIDGE = 0.004
"""Ridge of models of noisy rows: times the mean squared length of a row, over the square root of their number.

Within a factor of three of the best on digits, MNIST and 20 Newsgroups with half of the labels or nine in ten wrong.
"""


class Model(Protocol):
    """A fitted model."""

    def logits(self, x: Matrix) -> Array:
        """Shape (rows, classes)."""


@dataclass(frozen=True)
class Live:
    """A model as the bilevel problem moves it.

    Attributes:
        module: its parameters.
        inner: the look-ahead.
        optimiser: of the parameters.
        ridge: the penalty on them in both losses.
    """

    module: nn.Module
    inner: InnerMap
    optimiser: Optimizer
    ridge: float


class Fitter(Protocol):
    """Fits models of one kind to weighted rows with a distribution over the classes each."""

    def fit(self, x: Matrix, targets: Array, weights: Array, start: Any = None) -> Model:
        """Fit, starting from a model where one is given."""

    def for_noise(self, x: Matrix) -> "Fitter":
        """The fitter for many rows such as these, with doubtful labels."""

    def lighter(self) -> "Sequence[Fitter]":
        """Fitters with smaller penalties, the largest of them first; for rows whose labels have been cleaned."""

    def live(self, model: Any, x: Matrix, seed: int) -> Live:
        """A copy of a model, with step sizes for rows such as these."""


class LinearModule(nn.Module):
    """x·coef + intercept, also for sparse x."""

    def __init__(self, start: Affine, dtype: torch.dtype) -> None:
        super().__init__()
        self.coef = nn.Parameter(torch.as_tensor(start.coef, dtype=dtype).clone())
        self.intercept = nn.Parameter(torch.as_tensor(start.intercept, dtype=dtype).clone())

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return (torch.sparse.mm(x, self.coef) if x.is_sparse else x @ self.coef) + self.intercept


@dataclass(frozen=True)
class LinearFitter:
    """Softmax regression by L-BFGS.

    Attributes:
        ridge: penalty on the coefficients, for losses averaged over the rows.
    """

    ridge: float

    def fit(self, x: Matrix, targets: Array, weights: Array, start: Affine | None = None) -> Affine:
        """Fit to convergence."""
        return fit_softmax(x, targets, weights, self.ridge, start)

    def for_noise(self, x: Matrix) -> "LinearFitter":
        """With a penalty that follows the scale of the features and the deviation of a mean over the rows."""
        return LinearFitter(NOISE_RIDGE * square_length(x) / np.sqrt(x.shape[0]))

    def lighter(self) -> "Sequence[LinearFitter]":
        """A third and a tenth of the penalty."""
        return LinearFitter(0.3 * self.ridge), LinearFitter(0.1 * self.ridge)

    def live(self, model: Affine, x: Matrix, seed: int) -> Live:
        """Gradient descent with the step 1/L, L being the largest curvature of the inner loss; in the type of x."""
        module, rate = (
            LinearModule(model, torch.float64 if x.dtype == np.float64 else torch.float32),
            1 / (curvature(x, seed) + self.ridge),
        )
        return Live(module, GradientDescent(rate, 5), SGD(module.parameters(), rate), self.ridge)


@dataclass(frozen=True)
class Network:
    """A trained module."""

    module: nn.Module

    def logits(self, x: Matrix) -> Array:
        """In evaluation mode, by blocks of rows."""
        self.module.eval()
        with torch.no_grad():
            blocks = [self.module(as_tensor(x[i : i + 4096])) for i in range(0, x.shape[0], 4096)]
        return np.asarray(torch.cat(blocks).numpy())


@dataclass(frozen=True)
class NetworkFitter:
    """A network trained by Adam on minibatches.

    Attributes:
        make: gives an untrained module for a number of features and a number of classes.
        seed: of the first weights and of the order of the rows.
        epochs: passes over the rows from scratch, but 200 to 2,000 minibatches; a quarter where there is a start.
        rate: of Adam.
        decay: weight decay.
    """

    make: Callable[[int, int], nn.Module]
    seed: int
    epochs: int = 20
    rate: float = 1e-3
    decay: float = 1e-4

    def fit(self, x: Matrix, targets: Array, weights: Array, start: Network | None = None) -> Network:
        """Train; rows of weight 0 are left out."""
        kept = np.flatnonzero(weights > 1e-3 * weights.max())
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            module = self._module(x.shape[1], targets.shape[1]) if start is None else copy.deepcopy(start.module)
            module.train()
            tensors = (
                as_tensor(x[kept]),
                torch.as_tensor(targets[kept], dtype=torch.float32),
                torch.as_tensor(weights[kept] / weights[kept].mean(), dtype=torch.float32),
            )
            batches = Minibatches(tensors, min(BATCH, len(kept)), self.seed)
            steps = min(2000, max(200, self.epochs * len(kept) // BATCH)) // (1 if start is None else 4)
            optimiser = Adam(module.parameters(), self.rate, weight_decay=self.decay)
            schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, steps)
            for _ in range(steps):
                features, target, weight = batches.next().data
                optimiser.zero_grad()
                (weight * nn.functional.cross_entropy(module(features), target, reduction="none")).mean().backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
        return Network(module)

    def for_noise(self, x: Matrix) -> "NetworkFitter":
        """The same: what regularises a network is the length of its training."""
        return self

    def lighter(self) -> "Sequence[NetworkFitter]":
        """None."""
        return ()

    def live(self, model: Network, x: Matrix, seed: int) -> Live:
        """Adam, whose step size does not depend on the scale of the loss."""
        module = copy.deepcopy(model.module).eval()
        return Live(module, AdamDescent(self.rate, 5), Adam(module.parameters(), self.rate), self.decay)

    def _module(self, features: int, classes: int) -> nn.Module:
        module = self.make(features, classes)
        if not isinstance(module, nn.Module):
            raise ProblemError(f"model must give a torch.nn.Module, got {type(module).__name__}")
        try:
            with torch.no_grad():
                shape = tuple(module.eval()(torch.zeros(2, features)).shape)
        except RuntimeError as error:
            raise ProblemError(
                f"model cannot take rows of {features} features: {str(error).splitlines()[0]}"
            ) from error
        if shape != (2, classes):
            raise ProblemError(f"model must give {classes} logits per row, got shape {shape} for 2 rows")
        return module


def as_tensor(x: Matrix, dtype: torch.dtype = torch.float32) -> Tensor:
    """The features as a tensor, sparse where they are."""
    if not sparse.issparse(x):
        return torch.as_tensor(np.ascontiguousarray(x), dtype=dtype)
    coo = x.tocoo()
    places = torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.as_tensor(coo.data, dtype=dtype)
    return torch.sparse_coo_tensor(places, values, coo.shape, check_invariants=False).coalesce()


def square_length(x: Matrix) -> float:
    """The mean squared length of a row; 1 if all are zero."""
    total = x.multiply(x).sum() if sparse.issparse(x) else np.einsum("ij,ij->", x, x, dtype=np.float64)
    return float(total) / x.shape[0] or 1.0


def curvature(x: Matrix, seed: int) -> float:
    """At most the largest eigenvalue of the Hessian of the mean cross entropy: ½ λ_max([x 1]ᵀ[x 1]) / rows.

    By 20 power iterations; a tenth is added for what they miss.
    """
    direction = np.random.default_rng(seed).standard_normal(x.shape[1] + 1)
    value = 1.0
    for _ in range(20):
        direction /= np.linalg.norm(direction)
        image = x @ direction[:-1].astype(x.dtype) + direction[-1]
        direction = np.concatenate([x.T @ image, [image.sum()]]) / x.shape[0]
        value = float(np.linalg.norm(direction))
    return 0.55 * value
