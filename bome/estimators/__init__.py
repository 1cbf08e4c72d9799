"""Estimators in the manner of scikit-learn: clean noisy labels, learn penalties."""

from bome.estimators.cleaner import HyperCleaner
from bome.estimators.regularization import (
    LearnedRegularization,
    LearnedRegularizationClassifier,
    LearnedRegularizationRegressor,
)

__all__ = [
    "HyperCleaner",
    "LearnedRegularization",
    "LearnedRegularizationClassifier",
    "LearnedRegularizationRegressor",
]
