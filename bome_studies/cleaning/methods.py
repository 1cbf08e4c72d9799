"""The methods of the cleaning study: `HyperCleaner`, cleanlab, and simple baselines of the literature.

All fit the same linear model, softmax regression with a ridge penalty, to the same features. The ridge of each
baseline is the one with the highest accuracy on trusted rows held out in turn. No method sees a test label or a true
label of a doubtful row.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin

from bome._typing import Array, Matrix
from bome.estimators import HyperCleaner
from bome.estimators.rows import Rows, one_hot, stack, trusted_folds
from bome.estimators.softmax import Affine, fit_softmax, log_loss, probabilities

RIDGES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00003)
"""From strong to weak."""
FOLDS = 5
PATIENCE = 3
"""The search ends after so many weaker ridges without a gain."""
POWER = 0.7
"""q of the generalised cross entropy, as its authors have it."""
TRIMMINGS = 3
"""Rounds of small-loss selection."""


@dataclass(frozen=True)
class Answer:
    """What a method says.

    Attributes:
        predicted: the classes of the test rows.
        suspicion: of each doubtful row, larger where the given label is more likely wrong.
        flagged: which given labels it holds to be wrong.
    """

    predicted: Array
    suspicion: Array
    flagged: Array


Method = Callable[[Rows, Matrix, int], Answer]
"""Called with (rows, features of the test rows, seed)."""

Fit = Callable[[Rows, float, Affine | None], Affine]
"""Fits a model with a ridge, beginning at another model where there is one."""


def tuned(fit: Fit, rows: Rows) -> tuple[Affine, float]:
    """The model with the ridge of the highest accuracy on held-out trusted rows; the lower loss decides between equals.

    Args:
        fit: fits the model to all doubtful and some trusted rows.
        rows: all rows.

    Returns:
        The model fitted to all rows, and its ridge.
    """
    parts = trusted_folds(rows.trusted_labels, min(FOLDS, len(rows.trusted_labels)))
    models: list[Affine | None] = [None] * len(parts)
    best, chosen, worse = (-math.inf, -math.inf), 0.01, 0
    for ridge in RIDGES if parts else ():
        hits = losses = 0.0
        for i, (kept, held) in enumerate(parts):
            model = models[i] = fit(rows.with_trusted(kept), ridge, models[i])
            logits, labels = model.logits(rows.trusted_x[held]), rows.trusted_labels[held]
            hits += float((logits.argmax(axis=1) == labels).sum())
            losses += float(log_loss(logits, labels).sum())
        if (hits, -losses) > best:
            best, chosen, worse = (hits, -losses), ridge, 0
        else:
            worse += 1
            if worse == PATIENCE:
                break
    return fit(rows, chosen, None), chosen


# --- fits -------------------------------------------------------------------------------------------------------------


def fit_trusted(rows: Rows, ridge: float, start: Affine | None) -> Affine:
    """Trusted rows only."""
    return fit_softmax(rows.trusted_x, rows.trusted, np.ones(len(rows.trusted_labels)), ridge, start)


def fit_all(rows: Rows, ridge: float, start: Affine | None) -> Affine:
    """All rows as they are."""
    targets = np.concatenate([rows.given, rows.trusted])
    return fit_softmax(stack(rows.x, rows.trusted_x), targets, np.ones(len(targets)), ridge, start)


def fit_kept(rows: Rows, kept: Array, ridge: float, start: Affine | None) -> Affine:
    """Some doubtful rows and the trusted ones; the ridge is for the mean over these."""
    return fit_all(rows.some(kept), ridge, start)


def fit_forward(rows: Rows, confusion: Array, ridge: float, start: Affine | None) -> Affine:
    """Forward correction: the loss of a doubtful row is −log Σ_y p(y | x) P(given | y), that of a trusted row plain."""
    likelihood = np.concatenate([confusion[:, rows.labels].T, rows.trusted])

    def loss(p: Array) -> tuple[float, Array]:
        joint = p * likelihood
        total = np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return -float(np.log(total).mean()), (p - joint / total) / len(p)

    begin = fit_trusted(rows, ridge, None) if start is None else start
    return _descended(stack(rows.x, rows.trusted_x), loss, ridge, begin)


def fit_generalised(rows: Rows, ridge: float, start: Affine | None) -> Affine:
    """Generalised cross entropy (1 − p^q)/q of doubtful rows, cross entropy of trusted rows."""
    labels, targets = np.concatenate([rows.labels, rows.trusted_labels]), np.concatenate([rows.given, rows.trusted])
    doubtful = np.arange(len(labels)) < len(rows.labels)

    def loss(p: Array) -> tuple[float, Array]:
        own = np.maximum(p[np.arange(len(labels)), labels], np.finfo(np.float64).tiny)
        values = np.where(doubtful, (1 - own**POWER) / POWER, -np.log(own))
        slopes = np.where(doubtful, own**POWER, 1.0)  # of these values by the cross entropy
        return float(values.mean()), slopes[:, None] * (p - targets) / len(p)

    begin = fit_all(rows, ridge, None) if start is None else start
    return _descended(stack(rows.x, rows.trusted_x), loss, ridge, begin)


def _descended(x: Matrix, loss: Callable[[Array], tuple[float, Array]], ridge: float, start: Affine) -> Affine:
    """Minimise loss + ridge/2 ‖coef‖² by L-BFGS.

    Args:
        x: features.
        loss: of the probabilities, shape (rows, classes): its value, and its gradient by the logits.
        ridge: strength of the penalty; the intercept has none.
        start: where to begin.
    """
    d, k = start.coef.shape

    def value_and_gradient(flat: Array) -> tuple[float, Array]:
        coef = flat[: d * k].reshape(d, k)
        value, slope = loss(probabilities(Affine(coef, flat[d * k :]).logits(x)))
        by_coef = np.asarray(x.T @ slope.astype(x.dtype)) + ridge * coef
        penalty = 0.5 * ridge * float((coef * coef).sum())
        return value + penalty, np.concatenate([by_coef.ravel(), slope.sum(axis=0)]).astype(np.float64)

    first = np.concatenate([start.coef.ravel(), start.intercept])
    options = {"maxiter": 300, "maxcor": 20, "gtol": 1e-5, "ftol": 1e-8}
    best = minimize(value_and_gradient, first, jac=True, method="L-BFGS-B", options=options).x
    return Affine(best[: d * k].reshape(d, k), best[d * k :])


def _of_given(model: Affine, rows: Rows) -> Array:
    """The probability of each given label."""
    return np.asarray(probabilities(model.logits(rows.x))[np.arange(len(rows.labels)), rows.labels])


def _agrees(model: Affine, rows: Rows) -> Array:
    return np.asarray(model.logits(rows.x).argmax(axis=1) == rows.labels)


def _smallest(losses: Array, share: float) -> Array:
    """Which rows are among the share with the smallest losses."""
    count = min(len(losses), max(1, round(share * len(losses))))
    kept = np.zeros(len(losses), dtype=bool)
    kept[np.argsort(losses, kind="stable")[:count]] = True
    return kept


# --- methods ----------------------------------------------------------------------------------------------------------


def _answer(model: Affine, rows: Rows, test_x: Matrix, flagged: Array | None = None) -> Answer:
    """What a model says by itself: labels that it does not predict are held to be wrong."""
    wrong = ~_agrees(model, rows) if flagged is None else flagged
    return Answer(model.logits(test_x).argmax(axis=1), 1 - _of_given(model, rows), wrong)


def bome(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """`HyperCleaner` as it comes."""
    cleaner = HyperCleaner(random_state=seed).fit(rows.x, rows.labels, rows.trusted_x, rows.trusted_labels)
    issues = cleaner.label_issues(style="cleanlab")
    suspicion = 1 - issues["label_quality"].to_numpy()
    return Answer(np.asarray(cleaner.predict(test_x)), suspicion, issues["is_label_issue"].to_numpy())


def trusted_only(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """A model of the trusted rows."""
    return _answer(tuned(fit_trusted, rows)[0], rows, test_x)


def all_rows(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """A model of all rows, as if every label were right."""
    return _answer(tuned(fit_all, rows)[0], rows, test_x)


def pruning(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """Keep the rows whose given label a model of the trusted rows agrees with."""
    ridge = tuned(fit_trusted, rows)[1]

    def fit(some: Rows, other: float, start: Affine | None) -> Affine:
        return fit_kept(some, _agrees(fit_trusted(some, ridge, None), some), other, start)

    kept = _agrees(fit_trusted(rows, ridge, None), rows)
    return _answer(tuned(fit, rows)[0], rows, test_x, ~kept)


def gold_loss_correction(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """GLC (Hendrycks et al., 2018): forward correction, P(given | y) being the mean over the trusted rows of class y of
    what a model of the doubtful labels predicts.
    """  # noqa: D205

    @cache
    def of_doubtful(ridge: float) -> Affine:
        return fit_softmax(rows.x, rows.given, np.ones(len(rows.labels)), ridge)

    def fit(some: Rows, ridge: float, start: Affine | None) -> Affine:
        return fit_forward(some, estimated_confusion(of_doubtful(ridge), some), ridge, start)

    return _answer(tuned(fit, rows)[0], rows, test_x)


def estimated_confusion(model: Affine, rows: Rows) -> Array:
    """P(given | y) by a model of the given labels, averaged over the trusted rows of each class; shape (y, given)."""
    predicted = probabilities(model.logits(rows.trusted_x))
    return np.stack([predicted[rows.trusted_labels == own].mean(axis=0) for own in range(rows.classes)])


def small_loss(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """Iteratively trimmed loss (Shen and Sanghavi, 2019): keep the rows of smallest loss, fit, and choose again.

    The share of rows to keep is how often a model of the trusted rows agrees with the given labels, divided by how
    often it is right on held-out trusted rows.
    """
    alone, ridge = tuned(fit_trusted, rows)
    share = min(1.0, float(_agrees(alone, rows).mean()) / max(held_out_accuracy(rows, ridge), 1e-3))

    def fit(some: Rows, other: float, start: Affine | None) -> Affine:
        model = fit_all(some, other, None) if start is None else start
        for _ in range(TRIMMINGS):
            model = fit_kept(some, _smallest(-_of_given(model, some), share), other, model)
        return model

    model = tuned(fit, rows)[0]
    return _answer(model, rows, test_x, ~_smallest(-_of_given(model, rows), share))


def held_out_accuracy(rows: Rows, ridge: float) -> float:
    """How often models of the trusted rows are right on trusted rows that they have not seen; 1 if none can be."""
    parts = trusted_folds(rows.trusted_labels, min(FOLDS, len(rows.trusted_labels)))
    hits = [
        fit_trusted(rows.with_trusted(kept), ridge, None).logits(rows.trusted_x[held]).argmax(axis=1)
        == rows.trusted_labels[held]
        for kept, held in parts
    ]
    return float(np.concatenate(hits).mean()) if hits else 1.0


def generalised_cross_entropy(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """GCE (Zhang and Sabuncu, 2018) with q = 0.7."""
    return _answer(tuned(fit_generalised, rows)[0], rows, test_x)


class _Softmax(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The linear model as scikit-learn wants it; labels are numbers from 0."""

    def __init__(self, ridge: float = 0.01) -> None:
        self.ridge = ridge

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "_Softmax":  # noqa: N803
        self.classes_ = np.unique(y)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.model_ = fit_softmax(X, one_hot(np.asarray(y), len(self.classes_)), weights, self.ridge)
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        return probabilities(self.model_.logits(X))

    def predict(self, X: Any) -> Array:  # noqa: N803
        return np.asarray(self.model_.logits(X).argmax(axis=1))


def cleanlab(rows: Rows, test_x: Matrix, seed: int) -> Answer:
    """cleanlab's `CleanLearning` on all rows; it is told never to remove a trusted row.

    The ridge is chosen twice: for the models that find issues as for all rows, and for the final one.
    """
    from cleanlab.classification import CleanLearning

    first = _Softmax(tuned(fit_all, rows)[1])
    learner = CleanLearning(first, seed=seed, cv_n_folds=FOLDS, find_label_issues_kwargs={"n_jobs": 1})
    labels = np.concatenate([rows.labels, rows.trusted_labels])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that classes of few rows are not pruned
        issues = learner.find_label_issues(stack(rows.x, rows.trusted_x), labels).iloc[: len(rows.labels)]
    flagged = issues["is_label_issue"].to_numpy()

    def fit(some: Rows, ridge: float, start: Affine | None) -> Affine:
        learner.clf = _Softmax(ridge)
        removed = np.concatenate([flagged, np.zeros(len(some.trusted_labels), dtype=bool)])
        given = np.concatenate([some.labels, some.trusted_labels])
        learner.fit(stack(some.x, some.trusted_x), given, label_issues=removed)
        fitted: Affine = learner.clf.model_
        return fitted

    model = tuned(fit, rows)[0]
    return Answer(model.logits(test_x).argmax(axis=1), 1 - issues["label_quality"].to_numpy(), flagged)


BOME, CLEANLAB, TRUSTED = "bome", "cleanlab", "trusted only"

METHODS: Mapping[str, Method] = {
    BOME: bome,
    CLEANLAB: cleanlab,
    "all rows": all_rows,
    TRUSTED: trusted_only,
    "pruning": pruning,
    "GLC": gold_loss_correction,
    "small loss": small_loss,
    "GCE": generalised_cross_entropy,
}
"""By name; all but the first are baselines."""

BASELINES = tuple(name for name in METHODS if name != BOME)
