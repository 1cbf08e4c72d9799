"""HyperCleaner: a classifier for data with wrong labels beside a few trusted rows."""

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from bome._checks import check_count, check_share
from bome._typing import Array, Matrix, Report
from bome.core.threads import threads_for
from bome.errors import ProblemError
from bome.estimators.belief import infer
from bome.estimators.features import check_known, checked, checked_labels, checked_mask
from bome.estimators.findings import findings
from bome.estimators.guard import Candidates, Verdict, judge, learn_candidates, tuned
from bome.estimators.models import Fitter, LinearFitter, NetworkFitter
from bome.estimators.rows import Rows, folds, marks, natural_order
from bome.estimators.softmax import probabilities
from bome.storage.memo import Memo, digest
from bome.tables.encoder import Encoder


class HyperCleaner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from a few trusted rows how far to believe each label of many others, and a classifier from both.

    Three ways to say which rows are trusted: `fit(X, y, X_val, y_val)` gives them apart, `fit(X, y, trusted=mask)` says
    which rows of X they are, and `fit(X, y)` sets a part aside with a warning, since nothing is known of its labels.

    Args:
        model: None for softmax regression, a `torch.nn.Module` that gives one logit per class, or a function
            (features, classes) -> module. A module given here is copied, not trained itself.
        warm_start_weights: where the learned weights begin, relative to what is believed of each label: None for 1,
            "cleanlab" for cleanlab's label quality, or an array of numbers in [0, 1], one for each row of X.
        validation_fraction: the share of rows that `fit(X, y)` sets aside.
        guard_folds: in how many parts the trusted rows are held out, one after the other, to compare the candidates;
            two for more than 4,000,000 entries of X, since few rows would put the candidates that need many at a
            disadvantage.
        random_state: seed; the same seed and rows give the same result.
        verbose: print the stages.

    Attributes:
        classes_: the labels, sorted.
        sample_weight_: a weight in [0, 1] for each row of X, in input order; 1 for trusted rows.
        choice_: "cleaned", "relabelled", "robust", "trusted only" or "all rows": the candidate that predicts.
        choice_reason_: why, with the numbers.
        candidates_: a frame with the held-out error and accuracy of each candidate.
        certificate_: how far the bilevel problem was solved, a `bome.certificate.Certificate`.
        curves_: the bilevel run by step: "step", "validation loss", "inner loss", "q".
        noise_rate_: the estimated share of wrong labels among the rows that are not trusted.
        confusion_: the estimated probability of each given label (column) for each true one (row).
        n_iter_: steps of the bilevel run.
        n_features_in_: columns of X.
        feature_names_in_: their names, where X is a frame.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        warm_start_weights: Any = None,
        validation_fraction: float = 0.2,
        guard_folds: int = 5,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.warm_start_weights = warm_start_weights
        self.validation_fraction = validation_fraction
        self.guard_folds = guard_folds
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        X_val: Any = None,  # noqa: N803
        y_val: Any = None,
        *,
        trusted: Any = None,
        progress: Report | None = None,
        record: Path | None = None,
        key: str = "",
    ) -> "HyperCleaner":
        """Clean the labels and fit the classifier.

        Args:
            X: rows with doubtful labels: an array, a sparse matrix or a frame with numbers and categories.
            y: their labels, numbers or text.
            X_val: trusted rows.
            y_val: their labels.
            trusted: a mask of the rows of X that are trusted, in place of X_val and y_val.
            progress: called with (stage, done, total).
            record: a folder for what is finished; a fit of the same rows and settings goes on from there.
            key: a digest of all rows and labels, where the caller has one; by default it is computed for `record`.
        """
        self._check_settings()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        features, given = checked(X), checked_labels(y, features=X)
        validate_data(self, X, skip_check_array=True)
        if X_val is not None or y_val is not None:
            if X_val is None or y_val is None or trusted is not None:
                raise ProblemError("give either X_val and y_val, or trusted, or none of them")
            apart, apart_labels = checked(X_val), checked_labels(y_val, features=X_val)
            validate_data(self, X_val, reset=False, skip_check_array=True)
            check_known(given, apart_labels)
            mask = np.zeros(len(given), dtype=bool)
        else:
            apart, apart_labels = None, given[:0]
            mask = self._set_aside(given, seed) if trusted is None else checked_mask(trusted, len(given))
        tell = self._teller(progress)
        self.classes_, codes = np.unique(np.concatenate([given, apart_labels]), return_inverse=True)
        codes, apart_codes = codes[: len(given)], codes[len(given) :]
        self._encoder = Encoder().fit(features)
        x = self._encoder.transform(features)
        number, classes = marks(x), len(self.classes_)
        if apart is None:
            rows = Rows(x, codes, x[mask], codes[mask], classes, number, number[mask])
        else:
            trusted_x = self._encoder.transform(apart)
            rows = Rows(x, codes, trusted_x, apart_codes, classes, number, marks(trusted_x))
        self._check_classes(codes, rows.trusted_labels)
        memo = Memo(None if record is None else Path(record))
        key = "" if record is None else self._key(rows, mask, seed, key)
        with threads_for(x.shape[0] * x.shape[1]):
            self._fit_rows(rows, mask, seed, tell, memo, key)
        return self

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """The logits, or with two classes the difference between those of the second and the first."""
        logits = self._logits(X)
        return np.asarray(logits[:, 1] - logits[:, 0]) if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class, in the order of `classes_`."""
        return probabilities(self._logits(X))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The likeliest class of each row."""
        best = self._logits(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def label_issues(self, *, style: Literal["bome", "cleanlab"] = "bome") -> pd.DataFrame:
        """What is wrong with the labels.

        Args:
            style: "bome" gives the columns row, given_label, suggested_label, weight, confidence and suspicion, the
                most suspicious row first; "cleanlab" gives is_label_issue, label_quality, given_label and
                predicted_label in input order.
        """
        check_is_fitted(self)
        suggested = self._posterior.argmax(axis=1)
        if style == "cleanlab":
            return pd.DataFrame(
                {
                    "is_label_issue": suggested != self._given,
                    "label_quality": 1 - self._suspicion,
                    "given_label": self.classes_[self._given],
                    "predicted_label": self.classes_[suggested],
                }
            )
        if style != "bome":
            raise ProblemError(f"style must be 'bome' or 'cleanlab', got {style!r}")
        frame = pd.DataFrame(
            {
                "row": np.arange(len(suggested)),
                "given_label": self.classes_[self._given],
                "suggested_label": self.classes_[suggested],
                "weight": self.sample_weight_,
                "confidence": self._posterior.max(axis=1).astype(np.float64),
                "suspicion": self._suspicion,
            }
        )
        return frame.sort_values("suspicion", ascending=False, kind="stable", ignore_index=True)

    def report(self, path: str | Path) -> None:
        """Write a page on what is wrong with the labels, for a browser."""
        from bome.reports import cleaner  # not above: the figures need matplotlib

        cleaner.write(path, findings(self, self.label_issues()))

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_settings(self) -> None:
        check_count("guard_folds", self.guard_folds, 2)
        check_share("validation_fraction", self.validation_fraction)
        if self.model is not None and not callable(self.model):
            raise ProblemError(
                "model must be None, a torch.nn.Module or a function (features, classes) -> module, "
                f"got {type(self.model).__name__}"
            )

    def _teller(self, progress: Report | None) -> Report:
        def tell(stage: str, done: int, total: int) -> None:
            if progress is not None:
                progress(stage, done, total)
            if self.verbose and done == total:
                print(f"{stage}: done")  # noqa: T201

        return tell

    def _set_aside(self, given: Array, seed: int) -> Array:
        warnings.warn(
            "no rows are said to be trusted: a part of X is used in their place, whose labels are not known to be "
            "clean; pass X_val and y_val, or trusted=mask",
            UserWarning,
            stacklevel=3,
        )
        _, codes, counts = np.unique(given, return_inverse=True, return_counts=True)
        mask = np.zeros(len(given), dtype=bool)
        for code, count in enumerate(counts):
            rows = np.random.default_rng([seed, code]).permutation(np.flatnonzero(codes == code))
            mask[rows[: max(1, round(self.validation_fraction * count))]] = True
        return mask

    def _check_classes(self, codes: Array, trusted_codes: Array) -> None:
        if len(self.classes_) < 2:
            raise ProblemError(f"y has one class only, {self.classes_[0]}: a classifier needs at least two")
        absent = np.setdiff1d(codes, trusted_codes)
        if len(absent):
            names = ", ".join(repr(name) for name in self.classes_[absent[:5]].tolist())
            raise ProblemError(
                f"the trusted rows have none of class {names}: add a trusted row of every class, or leave the class out"
            )

    def _fitter(self, seed: int, x: Matrix) -> Fitter:
        if self.model is None:
            return LinearFitter(0.01)
        model = self.model
        make = (lambda features, classes: _copied(model)) if isinstance(model, nn.Module) else model
        if not isinstance(x, np.ndarray):
            raise ProblemError("a network needs dense features: pass X.toarray(), or use the default model")
        return NetworkFitter(make, seed)

    def _key(self, rows: Rows, mask: Array, seed: int, key: str) -> str:
        """What decides the outcome of this fit."""
        inputs = [key] if key else [rows.x, rows.labels, mask, rows.trusted_x, rows.trusted_labels]
        return digest([*inputs, seed, self.guard_folds, self.model, self.warm_start_weights])

    def _fit_rows(self, everything: Rows, mask: Array, seed: int, tell: Report, memo: Memo, key: str) -> None:
        """Everything after the input is understood: fit, choose, and put results in the order of the input."""
        doubtful = np.flatnonzero(~mask)
        if not len(doubtful):
            raise ProblemError("all rows are trusted: there is nothing to clean")
        x, codes = everything.x, everything.labels
        order = doubtful[natural_order(x[doubtful], codes[doubtful], seed)]
        rank = natural_order(everything.trusted_x, everything.trusted_labels, seed)
        rows = everything.some(order).with_trusted(rank)
        tell("fitting the trusted rows", 0, 1)
        fitter = tuned(self._fitter(seed, x), rows)
        tell("fitting the trusted rows", 1, 1)
        first = self._first(rows, order, fitter)
        verdict = judge(rows, fitter, first, int(self.guard_folds), seed, tell, memo, key)
        candidates = learn_candidates(
            rows, fitter, first, seed, lambda done, total: tell("learning weights", done, total)
        )
        self._model = candidates.models(verdict.name)[verdict.number]
        self.choice_, self.candidates_ = verdict.name, verdict.table
        self.choice_reason_ = verdict.reason + self._unjudged(verdict)
        self.certificate_ = candidates.weighting.result.certificate
        self.n_iter_ = candidates.weighting.result.steps
        history = candidates.weighting.result.history
        names = {"step": "step", "f": "validation loss", "g": "inner loss", "q": "q"}
        self.curves_ = {title: history.column(name) for name, title in names.items()}
        self._keep(candidates, rows, order, codes, mask)

    def _unjudged(self, verdict: Verdict) -> str:
        """A sentence on classes of which no row was held out."""
        absent = [name for code, name in enumerate(self.classes_.tolist()) if code not in verdict.judged]
        if not absent or not verdict.judged:
            return ""
        names = ", ".join(map(repr, absent[:5])) + (" and others" if len(absent) > 5 else "")
        return f" This says nothing of {names}: a class needs two trusted rows, so that one can be held out."

    def _first(self, rows: Rows, order: Array, fitter: Fitter) -> Array | None:
        """Where the factors of the weights begin, in the order of `rows`."""
        start = self.warm_start_weights
        if start is None:
            return None
        if isinstance(start, str):
            if start != "cleanlab":
                raise ProblemError(f"warm_start_weights must be None, 'cleanlab' or an array, got {start!r}")
            return _cleanlab_quality(rows, fitter)
        values = np.asarray(start, dtype=np.float64)
        if values.ndim != 1 or len(values) <= order.max() or not ((values >= 0) & (values <= 1)).all():
            raise ProblemError("warm_start_weights must hold one number in [0, 1] for each row of X")
        return np.asarray(values[order])

    def _keep(self, candidates: Candidates, rows: Rows, order: Array, codes: Array, mask: Array) -> None:
        """Results by row, in the order of the input."""
        posterior, confusion = candidates.belief.posterior, candidates.belief.confusion
        if self.choice_ == "trusted only":
            clean = probabilities(candidates.alone.logits(rows.x))
            posterior, confusion = infer(clean, rows.labels)
        right = posterior[np.arange(len(order)), rows.labels].astype(np.float64)
        factors = candidates.weighting.factors
        self.confusion_ = confusion
        self.noise_rate_ = float(1 - right.mean())
        self.sample_weight_ = np.ones(len(codes))
        self.sample_weight_[order] = candidates.weights
        self._given = codes
        self._posterior = np.eye(rows.classes)[codes]
        self._posterior[order] = posterior
        self._suspicion = np.zeros(len(codes))
        self._suspicion[order] = 1 - right * (0.8 + 0.2 * factors)

    def _logits(self, x: Any) -> Array:
        check_is_fitted(self)
        features = checked(x)
        validate_data(self, x, reset=False, skip_check_array=True)
        return self._model.logits(self._encoder.transform(features))


def _copied(module: nn.Module) -> nn.Module:
    import copy

    return copy.deepcopy(module)


def _cleanlab_quality(rows: Rows, fitter: Fitter) -> Array:
    """cleanlab's label quality from out-of-fold probabilities of models of the doubtful rows."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise ProblemError("warm_start_weights='cleanlab' needs cleanlab: pip install bome[cleanlab]") from error
    clean = np.empty((len(rows.labels), rows.classes))
    for fit, held in folds(rows.labels, 5):
        model = fitter.fit(rows.x[fit], rows.given[fit], np.ones(int(fit.sum())))
        clean[held] = probabilities(model.logits(rows.x[held]))
    return np.asarray(get_label_quality_scores(rows.labels, clean), dtype=np.float64)
