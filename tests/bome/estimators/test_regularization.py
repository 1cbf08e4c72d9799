"""Learned penalties against cross-validated common ones."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bome import LearnedRegularization, LearnedRegularizationRegressor
from bome.errors import ProblemError
from bome.estimators import LearnedRegularizationClassifier
from bome.estimators.regularization import classification, regression

Array = NDArray[Any]


def _mostly_noise(seed: int) -> tuple[Array, Array]:
    """100 features, of which ten matter."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((1200, 100))
    return x, x[:, :10] @ random.standard_normal(10) + 2 * random.standard_normal(1200)


def test_the_classifier_has_the_short_name() -> None:
    assert LearnedRegularization is LearnedRegularizationClassifier


def test_squares_are_solved_as_by_the_normal_equations() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((40, 5)), random.standard_normal(40)
    x, y = x - x.mean(0), y - y.mean()
    strength = np.array([1e-3, 0.1, 1.0, 10.0, 1e12])
    expected = np.linalg.solve(x.T @ x / 40 + np.diag(strength), x.T @ y / 40)
    np.testing.assert_allclose(regression().solve(x, y, strength).coef[:, 0], expected, atol=1e-9)


def test_a_classifier_of_huge_penalties_equals_one_without_these_features() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((60, 4)), np.arange(60) % 2
    strength = np.array([0.1, 1e12, 0.1, 1e12])
    ours = classification(2).solve(x, y, strength)
    theirs = LogisticRegression(C=1 / (60 * 0.05), tol=1e-8).fit(x[:, [0, 2]], y)  # two columns share the penalty
    difference = ours.coef[[0, 2], 1] - ours.coef[[0, 2], 0]
    np.testing.assert_allclose(difference, theirs.coef_[0], atol=2e-3)
    assert np.abs(ours.coef[[1, 3]]).max() < 1e-6


def test_regression_with_many_useless_features_is_better_than_a_common_penalty() -> None:
    gains = []
    for seed in range(2):
        x, y = _mostly_noise(seed)
        ours = LearnedRegularizationRegressor(random_state=0).fit(x[:200], y[:200])
        common = RidgeCV(np.logspace(-2, 4, 13)).fit(x[:200], y[:200])
        gains.append(ours.score(x[200:], y[200:]) - common.score(x[200:], y[200:]))
        assert np.median(ours.penalty_[10:]) > 10 * np.median(ours.penalty_[:10])
    assert np.mean(gains) > 0.04


def test_groups_of_useless_features_are_penalised_more() -> None:
    x, y = _mostly_noise(0)
    groups = np.repeat(["useful", "useless"], [10, 90])
    ours = LearnedRegularizationRegressor("group", groups=groups, random_state=0).fit(x[:200], y[:200])
    assert ours.groups_.tolist() == ["useful", "useless"]
    assert ours.penalty_.shape == (2,)
    assert ours.penalty_[1] > 3 * ours.penalty_[0]


def test_one_penalty_for_all_is_about_that_of_cross_validation() -> None:
    x, y = load_diabetes(return_X_y=True)
    ours = LearnedRegularizationRegressor("scalar", random_state=0).fit(x[:300], y[:300])
    common = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))).fit(x[:300], y[:300])
    assert isinstance(ours.penalty_, float)
    assert ours.score(x[300:], y[300:]) > common.score(x[300:], y[300:]) - 0.02


def test_it_is_not_much_worse_than_ridge_on_diabetes() -> None:
    x, y = load_diabetes(return_X_y=True)
    gains = []
    for seed in range(3):
        a, b, c, d = train_test_split(x, y, train_size=300, random_state=seed)
        common = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))).fit(a, c)
        gains.append(LearnedRegularizationRegressor(random_state=0).fit(a, c).score(b, d) - common.score(b, d))
    assert np.mean(gains) > -0.02


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_it_is_not_much_worse_than_logistic_regression_cv(load: Any) -> None:
    x, y = load(return_X_y=True)
    a, b, c, d = train_test_split(x, y, train_size=300, random_state=0)
    common = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(cv=3, max_iter=1000, scoring="accuracy", l1_ratios=(0,), use_legacy_attributes=False),
    ).fit(a, c)
    assert LearnedRegularization(random_state=0).fit(a, c).score(b, d) > common.score(b, d) - 0.015


def test_a_validation_set_of_ones_own_decides() -> None:
    """Feature 1 tells something of the label in X but nothing in the validation rows: it is penalised more."""
    random = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = np.c_[y + 0.7 * random.standard_normal(300), y + random.standard_normal(300)]
    x_val = np.c_[y + 0.7 * random.standard_normal(300), random.standard_normal(300)]
    ours = LearnedRegularization(random_state=0).fit(x, y, x_val, y)
    assert ours.penalty_[1] > 2 * ours.penalty_[0]


def test_coefficients_are_in_the_units_of_the_input() -> None:
    x, y = load_diabetes(return_X_y=True)
    ours = LearnedRegularizationRegressor(max_iter=3, random_state=0).fit(100 * x + 5, y)
    np.testing.assert_allclose(ours.predict(100 * x + 5), (100 * x + 5) @ ours.coef_ + ours.intercept_)
    plain = LearnedRegularizationRegressor(max_iter=3, random_state=0).fit(x, y)
    np.testing.assert_allclose(plain.predict(x), ours.predict(100 * x + 5), rtol=1e-3)


def test_sparse_and_dense_rows_agree_where_nothing_is_centred() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((100, 5)) * (random.random((100, 5)) < 0.5)
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    ours = LearnedRegularization("scalar", max_iter=3, random_state=0).fit(sparse.csr_array(x), y)
    assert ours.score(sparse.csr_array(x), y) > 0.9
    assert ours.coef_.shape == (1, 5)


def test_cross_validation_works_and_a_seed_gives_the_same_result() -> None:
    x, y = load_diabetes(return_X_y=True)
    model = LearnedRegularizationRegressor(max_iter=5, random_state=0)
    assert cross_val_score(model, x, y, cv=2).shape == (2,)
    np.testing.assert_array_equal(model.fit(x, y).coef_, model.fit(x, y).coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "l1"}, "penalty must be"),
        ({"penalty": "group"}, "needs groups"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
        ({"max_iter": 1.5}, "max_iter must be"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    x, y = load_diabetes(return_X_y=True)
    with pytest.raises(ProblemError, match=message):
        LearnedRegularizationRegressor(**settings).fit(x, y)
    with pytest.raises(ProblemError, match="both X_val and y_val"):
        LearnedRegularizationRegressor().fit(x, y, X_val=x)


def test_ridge_is_the_limit_of_equal_penalties() -> None:
    x, y = load_diabetes(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    model = regression().solve(x, y, np.full(10, 0.3))
    np.testing.assert_allclose(model.coef[:, 0], Ridge(alpha=0.3 * len(y)).fit(x, y).coef_)
