"""Softmax regression with a weight and a target distribution per row, solved to convergence by L-BFGS."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bome._typing import Array, Matrix

MOST = 20.0
"""The largest factor by which logits are made more sure."""


@dataclass(frozen=True)
class Affine:
    """x·coef + intercept: of a classifier, log p(class | x) up to a constant of each row.

    Attributes:
        coef: shape (features, outputs).
        intercept: shape (outputs,).
    """

    coef: Array
    intercept: Array

    def logits(self, x: Matrix) -> Array:
        """Shape (rows, outputs)."""
        out: Array = np.asarray(x @ self.coef.astype(x.dtype, copy=False))
        out += self.intercept.astype(out.dtype, copy=False)
        return out


def fit_softmax(
    x: Matrix,
    targets: Array,
    weights: Array,
    ridge: float,
    start: Affine | None = None,
    max_iter: int = 300,
) -> Affine:
    """Minimise Σ wᵢ CEᵢ / Σ wᵢ + ridge/2 ‖coef‖².

    Args:
        x: features, shape (rows, features).
        targets: a distribution over the classes per row, shape (rows, classes).
        weights: one per row, not negative.
        ridge: strength of the penalty; the intercept has a thousandth of it, so that the solution is unique.
        start: where to begin; by default at 0.
        max_iter: of L-BFGS.
    """
    kept = weights > 0
    if not kept.all():
        x, targets, weights = x[kept], targets[kept], weights[kept]
    d, k = x.shape[1], targets.shape[1]
    share = (weights / weights.sum()).astype(np.float64)
    penalty = np.concatenate([np.full(d * k, ridge), np.full(k, 1e-3 * ridge)])

    def loss(flat: Array) -> tuple[float, Array]:
        model = Affine(flat[: d * k].reshape(d, k), flat[d * k :])
        logits = model.logits(x)
        log_p = logits - log_sum(logits)
        value = -float(share @ (targets * log_p).sum(axis=1)) + 0.5 * float(penalty @ (flat * flat))
        residual = (np.exp(log_p) - targets) * share[:, None].astype(x.dtype)
        grad = np.concatenate([np.asarray(x.T @ residual).ravel(), residual.sum(axis=0)])
        return value, grad.astype(np.float64) + penalty * flat

    first = np.zeros(d * k + k) if start is None else np.concatenate([start.coef.ravel(), start.intercept])
    options = {"maxiter": max_iter, "maxcor": 20, "gtol": 1e-5, "ftol": 1e-6}
    best = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
    return Affine(best[: d * k].reshape(d, k), best[d * k :])


def log_sum(logits: Array) -> Array:
    """log Σ exp of each row, shape (rows, 1)."""
    top = logits.max(axis=1, keepdims=True)
    return np.asarray(top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True)))


def probabilities(logits: Array) -> Array:
    """The softmax of each row, in float64."""
    logits = logits.astype(np.float64)
    return np.asarray(np.exp(logits - log_sum(logits)))


def log_loss(logits: Array, labels: Array) -> Array:
    """The cross entropy of each row."""
    logits = logits.astype(np.float64)
    return np.asarray(log_sum(logits)[:, 0] - logits[np.arange(len(labels)), labels])


def calibrated_error(logits: Array, labels: Array) -> Array:
    """The probability of the wrong classes in each row, with the logits times the factor of the least cross entropy."""
    return 1 - np.exp(-log_loss(stacked((logits,), labels)[0] * logits.astype(np.float64), labels))


def stacked(logits: Sequence[Array], labels: Array) -> Array:
    """The factors ≥ 0 with which the sum of several logits has the least mean cross entropy; a convex problem."""
    parts = np.stack([each.astype(np.float64) for each in logits])

    def value_and_gradient(factors: Array) -> tuple[float, Array]:
        total = np.tensordot(factors, parts, 1)
        off = np.exp(total - log_sum(total))
        off[np.arange(len(labels)), labels] -= 1
        return float(log_loss(total, labels).mean()), np.einsum("pij,ij->p", parts, off) / len(labels)

    first = np.full(len(parts), 1 / len(parts))
    bounds = [(0.0, MOST)] * len(parts)
    return np.asarray(minimize(value_and_gradient, first, jac=True, method="L-BFGS-B", bounds=bounds).x)
