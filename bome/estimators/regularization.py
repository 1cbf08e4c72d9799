"""Linear models whose penalty is learned: one per feature, one per group of features, or one for all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome._checks import check_count
from bome._typing import Array, Matrix
from bome.errors import ProblemError
from bome.estimators.features import check_known
from bome.estimators.gates import Job, learn_gates, penalties
from bome.estimators.rows import folds, natural_order, one_hot, stack
from bome.estimators.softmax import Affine, fit_softmax, log_loss, probabilities
from bome.loop import Result

RIDGES = tuple(float(10**power) for power in np.arange(1, -5.5, -0.5))
PARTS = 4
ENTRIES = 4_000_000
"""Penalties are learned from as many rows as have this many entries; the model is fitted to all rows."""

Penalty = Literal["feature", "group", "scalar"]
Parts = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Kind:
    """What a linear model is for.

    Attributes:
        outputs: numbers it gives per row.
        torch_loss: the loss of each row, for the bilevel problem.
        loss: the loss of each row.
        solve: the model for features, targets and the penalty on each feature.
    """

    outputs: int
    torch_loss: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Array, Array], Array]
    solve: Callable[[Matrix, Array, Array], Affine]


def classification(classes: int) -> Kind:
    """Softmax regression."""
    return Kind(
        classes,
        lambda out, targets: cross_entropy(out, targets, reduction="none"),
        log_loss,
        lambda x, targets, strength: _solve_softmax(x, one_hot(targets, classes), strength),
    )


def regression() -> Kind:
    """Half the squared error."""
    return Kind(
        1,
        lambda out, targets: 0.5 * (out[:, 0] - targets) ** 2,
        lambda out, targets: 0.5 * (out[:, 0] - targets) ** 2,
        _solve_squares,
    )


def _solve_softmax(x: Matrix, targets: Array, strength: Array) -> Affine:
    """The mean cross entropy + ½ Σⱼ strengthⱼ ‖coefⱼ‖²."""
    smallest = float(strength.min())
    factors = np.sqrt(smallest / strength)
    model = fit_softmax(_times(x, factors), targets, np.ones(len(targets)), smallest)
    return Affine(model.coef * factors[:, None], model.intercept)


def _solve_squares(x: Matrix, targets: Array, strength: Array) -> Affine:
    """Half the mean squared error + ½ Σⱼ strengthⱼ coefⱼ²."""
    smallest = float(strength.min())
    factors = np.sqrt(smallest / strength)
    model = Ridge(alpha=smallest * len(targets)).fit(_times(x, factors), targets)
    return Affine((model.coef_ * factors)[:, None], np.array([model.intercept_]))


def _times(x: Matrix, factors: Array) -> Matrix:
    """Features times factors: with unequal factors a common penalty is one of its own for each feature.

    The solvers meet no penalty of 1e10 that way, on which they would make no progress.
    """
    return (x @ sparse.diags(factors)).tocsr() if sparse.issparse(x) else x * factors


@dataclass(frozen=True)
class Learned:
    """The penalties that were learned.

    Attributes:
        common: the best penalty for all features.
        strength: one per group.
        result: the bilevel run.
    """

    common: float
    strength: Array
    result: Result


def learn_penalties(x: Matrix, targets: Array, kind: Kind, groups: Array, parts: Parts, steps: int) -> Learned:
    """The best common penalty on the folds, then gates from there."""
    ridge = best_ridge(x, targets, kind, parts)
    gates = learn_gates(Job(x, targets, kind.outputs, kind.torch_loss), groups, ridge, parts, steps)
    return Learned(ridge, penalties(gates.values, ridge), gates.result)


def best_ridge(x: Matrix, targets: Array, kind: Kind, parts: Parts) -> float:
    """The common penalty of the lowest loss on held-out rows."""
    losses = [
        sum(
            float(kind.loss(_solved(kind, x, targets, ridge, fit).logits(x[held]), targets[held]).sum())
            for fit, held in parts
        )
        for ridge in RIDGES
    ]
    return RIDGES[int(np.argmin(losses))]


def is_better(x: Matrix, targets: Array, kind: Kind, groups: Array, fit: Array, held: Array, steps: int) -> bool:
    """Whether penalties learned from some rows serve other rows better than a common one does."""
    parts = list(folds(_strata(targets[fit]), PARTS))
    learned = learn_penalties(x[fit], targets[fit], kind, groups, parts, steps)
    common = _solved(kind, x, targets, learned.common, fit)
    own = _solved(kind, x, targets, learned.strength[groups], fit)
    losses = [float(kind.loss(model.logits(x[held]), targets[held]).mean()) for model in (own, common)]
    return losses[0] <= losses[1]


def _solved(kind: Kind, x: Matrix, targets: Array, strength: float | Array, fit: Array) -> Affine:
    return kind.solve(x[fit], targets[fit], np.broadcast_to(strength, (x.shape[1],)))


def _strata(targets: Array) -> Array:
    """What folds shall have equal shares of: classes, or ranks of values."""
    return targets if targets.dtype.kind == "i" else np.argsort(np.argsort(targets, kind="stable"), kind="stable")


class _LearnedPenalty(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share: settings, scales, and the search for the penalties."""

    def __init__(
        self, penalty: Penalty = "feature", *, groups: Any = None, max_iter: int = 60, random_state: Any = None
    ) -> None:
        self.penalty = penalty
        self.groups = groups
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _group_numbers(self, features: int) -> Array:
        """The number of the group of each feature."""
        if self.penalty == "feature":
            return np.arange(features)
        if self.penalty == "scalar":
            return np.zeros(features, dtype=int)
        if self.penalty != "group":
            raise ProblemError(f"penalty must be 'feature', 'group' or 'scalar', got {self.penalty!r}")
        if self.groups is None or np.shape(self.groups) != (features,):
            raise ProblemError(f"penalty='group' needs groups: the group of each of the {features} features")
        self.groups_, numbers = np.unique(np.asarray(self.groups), return_inverse=True)
        return np.asarray(numbers)

    def _fit(self, x: Matrix, targets: Array, held: tuple[Matrix, Array] | None, kind: Kind) -> Affine:
        """Learn the penalties, fit, and return the model in the units of the input."""
        check_count("max_iter", self.max_iter)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        groups = self._group_numbers(x.shape[1])
        mean, scale = _scales(x)
        scaled = _standardised(x, mean, scale)
        if held is not None:
            held = _standardised(held[0], mean, scale), held[1]
        elif len(targets) < 2 * PARTS:
            raise ProblemError(
                f"penalties cannot be learned from n_samples={len(targets)} rows: give at least {2 * PARTS}, or X_val"
            )
        strength = self._strength(scaled, targets, held, kind, groups, seed)
        self.penalty_: Any = float(strength[0]) if self.penalty == "scalar" else strength
        model = kind.solve(scaled, targets, strength[groups])
        coef = model.coef / scale[:, None]
        return Affine(coef, model.intercept - mean @ coef)

    def _strength(
        self, x: Matrix, targets: Array, held: tuple[Matrix, Array] | None, kind: Kind, groups: Array, seed: int
    ) -> Array:
        """The penalty of each group; a common one where learned ones do not serve rows they were not learned from."""
        order = np.random.default_rng(seed).permutation(natural_order(x, targets, seed))
        order = order[: max(200, ENTRIES // max(1, x.shape[1]))]
        x, targets = x[order], targets[order]
        if held is None:
            parts = list(folds(_strata(targets), PARTS))
        else:
            fit = np.arange(len(targets) + len(held[1])) < len(targets)
            x, targets, parts = stack(x, held[0]), np.concatenate([targets, held[1]]), [(fit, ~fit)]
        steps = int(self.max_iter)
        learned = learn_penalties(x, targets, kind, groups, parts, steps)
        self.certificate_, self.n_iter_ = learned.result.certificate, learned.result.steps
        if held is not None or self.penalty == "scalar":
            return learned.strength
        if is_better(x, targets, kind, groups, *parts[0], steps):
            return learned.strength
        return np.full(len(learned.strength), learned.common)


class LearnedRegularization(ClassifierMixin, _LearnedPenalty):  # type: ignore[misc]
    """A linear classifier beside `LogisticRegressionCV`, with a penalty for each feature or group that is learned.

    BOME learns the penalties with which models of some rows do best on others. Learned penalties are used only if they
    are better than a common penalty on rows that they were not learned from.

    Args:
        penalty: "feature", "group" or "scalar".
        groups: the group of each feature, for penalty="group".
        max_iter: steps of the bilevel run.
        random_state: seed.

    Attributes:
        penalty_: the penalty pⱼ of each feature or group, or the one for all. The loss is the mean cross entropy + ½ Σ
            pⱼ βⱼ², β being the coefficients of standardised features. Very large ones mean that a feature is left out.
        groups_: with penalty="group", the groups in the order of `penalty_`, which is sorted.
        coef_: shape (classes, features), or (1, features) with two classes.
        intercept_: shape (classes,), or (1,).
        classes_: the labels, sorted.
        certificate_: how far the bilevel problem was solved, a `bome.certificate.Certificate`.
        n_iter_: steps of the bilevel run.
    """

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> "LearnedRegularization":  # noqa: N803
        """Learn the penalties on X_val and y_val, or on parts of X, and fit the model to X and y."""
        x, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ProblemError(f"y has one class only, {self.classes_[0]}: a classifier needs at least two")
        held = _held(self, X_val, y_val)
        if held is not None:
            check_known(self.classes_, held[1])
            held = held[0], np.searchsorted(self.classes_, held[1])
        model = self._fit(x, codes, held, classification(len(self.classes_)))
        coef, intercept = model.coef.T, model.intercept
        if len(self.classes_) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef, intercept
        return self

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """The logits, or with two classes the difference between those of the second and the first."""
        check_is_fitted(self)
        x = validate_data(self, X, accept_sparse="csr", reset=False, dtype=[np.float64, np.float32])
        out = np.asarray(x @ self.coef_.T) + self.intercept_
        return out[:, 0] if len(self.classes_) == 2 else out

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class."""
        logits = self.decision_function(X)
        return probabilities(np.stack([np.zeros_like(logits), logits], axis=1) if logits.ndim == 1 else logits)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The likeliest class of each row."""
        logits = self.decision_function(X)
        return np.asarray(self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)])


LearnedRegularizationClassifier = LearnedRegularization


class LearnedRegularizationRegressor(RegressorMixin, _LearnedPenalty):  # type: ignore[misc]
    """A linear regression beside `RidgeCV`, with a penalty for each feature or group that is learned.

    Arguments and attributes are those of `LearnedRegularization`; the loss is half the mean squared error of
    standardised values, `coef_` has shape (features,) and `intercept_` is a number.
    """

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> "LearnedRegularizationRegressor":  # noqa: N803
        """Learn the penalties on X_val and y_val, or on parts of X, and fit the model to X and y."""
        x, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True)
        y = y.astype(np.float64)
        middle, spread = float(y.mean()), float(y.std()) or 1.0
        held = _held(self, X_val, y_val)
        if held is not None:
            held = held[0], ((held[1].astype(np.float64) - middle) / spread).astype(np.float32)
        model = self._fit(x, ((y - middle) / spread).astype(np.float32), held, regression())
        self.coef_ = model.coef[:, 0] * spread
        self.intercept_ = float(model.intercept[0] * spread + middle)
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The expected value of each row."""
        check_is_fitted(self)
        x = validate_data(self, X, accept_sparse="csr", reset=False, dtype=[np.float64, np.float32])
        return np.asarray(x @ self.coef_) + self.intercept_


def _held(estimator: Any, x: Any, y: Any) -> tuple[Matrix, Array] | None:
    if x is None and y is None:
        return None
    if x is None or y is None:
        raise ProblemError("give both X_val and y_val, or neither")
    checked: tuple[Matrix, Array] = validate_data(
        estimator, x, y, accept_sparse="csr", reset=False, dtype=[np.float64, np.float32]
    )
    return checked


def _scales(x: Matrix) -> tuple[Array, Array]:
    """Mean and deviation of each feature; sparse features are not centred."""
    if sparse.issparse(x):
        square = np.asarray(x.multiply(x).mean(axis=0)).ravel()
        return np.zeros(x.shape[1]), np.where(square > 0, np.sqrt(square), 1.0)
    deviation = x.std(axis=0, dtype=np.float64)
    constant = deviation <= 1e-12 * np.abs(x).max(axis=0)
    return x.mean(axis=0, dtype=np.float64), np.where(constant, 1.0, deviation)


def _standardised(x: Matrix, mean: Array, scale: Array) -> Matrix:
    return _times(x if sparse.issparse(x) else x - mean, 1 / scale)
