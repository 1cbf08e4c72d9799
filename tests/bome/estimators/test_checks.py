"""scikit-learn's own battery, for every estimator."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bome import HyperCleaner, LearnedRegularization, LearnedRegularizationRegressor

pytestmark = [
    pytest.mark.filterwarnings("ignore:no rows are said to be trusted"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning"),
]


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [HyperCleaner(guard_folds=2), LearnedRegularization(max_iter=3), LearnedRegularizationRegressor(max_iter=3)]
)
def test_scikit_learn_can_rely_on_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
