"""How far each label can be believed, before any weight is learned.

A model of the clean labels gives P(y | x); counting it against the given labels gives P(given | y), the confusion of
the noise; Bayes' rule gives P(y | x, given). The model is then fitted again to trusted rows and these posteriors. Rows
never judge themselves: the probabilities of a row come from models that were fitted without it.
"""

from dataclasses import dataclass

import numpy as np

from bome.estimators.models import Fitter, Model
from bome.estimators.rows import Rows, folds, stack
from bome.estimators.softmax import Array, probabilities

ROUNDS = 6
"""At most."""
SETTLED = 0.005
"""Rounds end when the posterior of the given labels changes by less than this on average."""
PARTS = 4
LARGE = 4_000_000
"""Rows with more entries than this are judged in two parts: a half of them is enough to fit a model."""


@dataclass(frozen=True)
class Belief:
    """What is believed of the doubtful rows.

    Attributes:
        model: fitted to trusted rows and posteriors.
        clean: P(y | x) of each row by models that have not seen it, shape (rows, classes).
        posterior: P(y | x, given label) of each row.
        confusion: P(given | y), shape (classes, classes).
    """

    model: Model
    clean: Array
    posterior: Array
    confusion: Array

    def of_given(self, labels: Array) -> Array:
        """The probability that the given label is right."""
        return np.asarray(self.posterior[np.arange(len(labels)), labels])


def learn_belief(rows: Rows, fitter: Fitter, alone: Model) -> Belief:
    """Start from the model of the trusted rows and alternate between posteriors and models."""
    clean = probabilities(alone.logits(rows.x)).astype(np.float32)
    posterior, confusion = infer(clean, rows.labels)
    model = _fit(rows, posterior, fitter, None)
    parts = 2 if rows.x.shape[0] * rows.x.shape[1] > LARGE else PARTS
    for _ in range(ROUNDS):
        before, clean = posterior, np.empty_like(posterior)
        for fit, held in folds(rows.labels, min(parts, len(rows.labels))):
            part = _fit(rows.some(fit), posterior[fit], fitter, model)
            clean[held] = probabilities(part.logits(rows.x[held]))
        posterior, confusion = infer(clean, rows.labels)
        model = _fit(rows, posterior, fitter, model)
        given = np.arange(len(rows.labels)), rows.labels
        if np.abs(posterior[given] - before[given]).mean() < SETTLED:
            break
    return Belief(model, clean, posterior, confusion)


def infer(clean: Array, labels: Array) -> tuple[Array, Array]:
    """P(y | x, given) and P(given | y) from P(y | x) and the given labels; each confusion counts one more row."""
    classes = clean.shape[1]
    counts = np.full((classes, classes), 1 / classes)
    for given in range(classes):
        counts[:, given] += clean[labels == given].sum(axis=0, dtype=np.float64)
    confusion = counts / counts.sum(axis=1, keepdims=True)
    joint = clean * confusion[:, labels].T.astype(clean.dtype)
    return joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(clean.dtype).tiny), confusion


def _fit(rows: Rows, posterior: Array, fitter: Fitter, start: Model | None) -> Model:
    weights = np.ones(len(posterior) + len(rows.trusted_labels))
    return fitter.fit(stack(rows.x, rows.trusted_x), np.concatenate([posterior, rows.trusted]), weights, start)
