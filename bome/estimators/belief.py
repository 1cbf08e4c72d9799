"""How far each label can be believed, before any weight is learned.

A model of the clean labels gives P(y | x); counting it against the given labels gives P(given | y), the confusion of
the noise; Bayes' rule gives P(y | x, given). The model is then fitted again to trusted rows and these posteriors. Rows
never judge themselves: the probabilities of a row come from models that were fitted without it.
"""

from dataclasses import dataclass

import numpy as np

from bome._typing import Array
from bome.estimators.models import Fitter, Model
from bome.estimators.rows import Rows, copies, folds, stack, trusted_folds
from bome.estimators.softmax import probabilities, stacked

ROUNDS = 6
"""At most."""
SETTLED = 0.005
"""Rounds end when the posterior of the given labels changes by less than this on average."""
PARTS = 4
TRUSTED_PARTS = 3
TINY = 1e-30
"""The least probability of which a logarithm is taken."""
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


def learn_belief(rows: Rows, fitter: Fitter, few: Fitter, alone: Model) -> Belief:
    """Start from a first opinion and alternate between posteriors and models.

    Args:
        rows: doubtful and trusted rows.
        fitter: of models of all rows.
        few: of models of the trusted rows.
        alone: the model of all trusted rows.
    """
    clean = first_opinion(rows, fitter, few, alone)
    posterior, confusion = infer(clean, rows.labels)
    model = _fit(rows, posterior, fitter, None)
    for _ in range(ROUNDS):
        before, clean = posterior, _unseen(rows, posterior, fitter, model)
        posterior, confusion = infer(clean, rows.labels)
        model = _fit(rows, posterior, fitter, model)
        given = np.arange(len(rows.labels)), rows.labels
        if np.abs(posterior[given] - before[given]).mean() < SETTLED:
            break
    return Belief(model, clean, posterior, confusion)


def first_opinion(rows: Rows, fitter: Fitter, few: Fitter, alone: Model) -> Array:
    """P(y | x) of the doubtful rows to begin with.

    Two kinds of models know something of the clean labels: that of the trusted rows, and that of the other labels as
    they are given. Their logits are added, with the factors that suit trusted rows best which neither has seen: five
    trusted rows of a class say less than a hundred of which half are right.
    """
    logits: Array = alone.logits(rows.x).astype(np.float64)
    same = copies(rows)
    parts = trusted_folds(rows.trusted_labels, TRUSTED_PARTS, same.kind)
    if not parts:
        return probabilities(logits).astype(np.float32)
    held_out = np.concatenate([np.flatnonzero(held) for _, held in parts])
    models = [few.fit(rows.trusted_x[fit], rows.trusted[fit], np.ones(int(fit.sum()))) for fit, _ in parts]
    of_trusted = [model.logits(rows.trusted_x[held]) for model, (_, held) in zip(models, parts, strict=True)]
    others = rows.some(same.twin < 0) if (same.twin >= 0).any() else rows  # no copy of all rows without need
    if not len(others.labels):
        return probabilities(logits).astype(np.float32)
    as_given = fitter.fit(others.x, others.given, np.ones(len(others.labels)))
    factors = stacked(
        (np.concatenate(of_trusted), as_given.logits(rows.trusted_x[held_out])), rows.trusted_labels[held_out]
    )
    logits *= factors[0]
    if factors[1]:
        logits += factors[1] * np.log(np.maximum(_unseen(rows, rows.given, fitter, None), TINY))
    return probabilities(logits).astype(np.float32)


def _unseen(rows: Rows, targets: Array, fitter: Fitter, start: Model | None) -> Array:
    """P(y | x) of each doubtful row by a model of the others and of the trusted rows."""
    clean = np.empty((len(rows.labels), rows.classes), dtype=np.float32)
    parts = 2 if rows.x.shape[0] * rows.x.shape[1] > LARGE else PARTS
    for fit, held in folds(rows.labels, min(parts, len(rows.labels))):
        part = _fit(rows.some(fit), targets[fit], fitter, start)
        clean[held] = probabilities(part.logits(rows.x[held]))
    return clean


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
