"""Bilevel optimisation made easy: min over (v, θ) of f(v, θ), where θ must minimise g(v, ·)."""

from typing import TYPE_CHECKING, Any

from bome import methods, tasks, testing
from bome._version import __version__ as __version__
from bome.core.microbatches import MicroBatches
from bome.data import Data, Minibatches
from bome.inner import AdamDescent, GradientDescent, TorchOptim
from bome.loop import Result, run
from bome.methods import BOME
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle
from bome.per_sample import Indexed, RankSampler, RowSGD, gather_rows
from bome.problem import Batches, PerSample, Problem
from bome.projections import ball, box, nonnegative, simplex
from bome.stepper import Stepper
from bome.stopping import MaxSteps
from bome.testing.hypergradients import hypergradcheck
from bome.tuner import Tuner

if TYPE_CHECKING:
    from bome.estimators import HyperCleaner, LearnedRegularization, LearnedRegularizationRegressor
    from bome.mixture import DataMixture

__all__ = [
    "BOME",
    "AdamDescent",
    "AutogradOracle",
    "BackwardOracle",
    "Batches",
    "Data",
    "DataMixture",
    "FuncOracle",
    "GradientDescent",
    "HyperCleaner",
    "Indexed",
    "LearnedRegularization",
    "LearnedRegularizationRegressor",
    "MaxSteps",
    "MicroBatches",
    "Minibatches",
    "PerSample",
    "Problem",
    "RankSampler",
    "Result",
    "RowSGD",
    "Stepper",
    "TorchOptim",
    "Tuner",
    "ball",
    "box",
    "gather_rows",
    "hypergradcheck",
    "methods",
    "nonnegative",
    "run",
    "simplex",
    "tasks",
    "testing",
]

_ESTIMATORS = ("HyperCleaner", "LearnedRegularization", "LearnedRegularizationRegressor")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the estimators when they are asked for, since scikit-learn takes longer to load than all the rest."""
    if name in _ESTIMATORS:
        from bome import estimators

        return getattr(estimators, name)
    if name == "DataMixture":
        from bome.mixture import DataMixture

        return DataMixture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
