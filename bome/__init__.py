"""Bilevel optimisation made easy: min over (v, θ) of f(v, θ), where θ must minimise g(v, ·)."""

import importlib
from typing import TYPE_CHECKING, Any

from bome import data, methods
from bome._version import __version__ as __version__
from bome.certificate import Certificate
from bome.core.microbatches import MicroBatches
from bome.data import Data, Minibatches
from bome.errors import (
    BilevelError,
    NonFiniteError,
    ProblemError,
    RankError,
    RunInterruptedError,
    StorageError,
    UnsupportedError,
    WorkerError,
)
from bome.inner import AdamDescent, GradientDescent, TorchOptim
from bome.loop import Record, Result, run
from bome.methods import BOME
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle
from bome.per_sample import Indexed, PerSample, RankSampler, RowSGD, gather_rows
from bome.problem import Batches, Problem
from bome.projections import affine, ball, box, half_space, joint, nonnegative, polyhedron, product, simplex
from bome.solver import Solver
from bome.stepper import Stepper
from bome.stopping import FirstOf, MaxEvaluations, MaxSeconds, MaxSteps, Progress, Stationary, Stop
from bome.storage.history import History
from bome.tuner import Tuner
from bome.worth import Refit, Start, refit

if TYPE_CHECKING:
    from bome import tasks, testing
    from bome.arms.result import Trained
    from bome.estimators import HyperCleaner, LearnedRegularization, LearnedRegularizationRegressor
    from bome.mixture import DataMixture
    from bome.nested.result import Solution
    from bome.nested.solve import solve
    from bome.runs.names import register
    from bome.testing import hypergradcheck

_LATER = {
    "DataMixture": "bome.mixture",
    "HyperCleaner": "bome.estimators",
    "LearnedRegularization": "bome.estimators",
    "LearnedRegularizationRegressor": "bome.estimators",
    "Solution": "bome.nested.result",
    "Trained": "bome.arms.result",
    "hypergradcheck": "bome.testing",
    "register": "bome.runs.names",
    "solve": "bome.nested.solve",
    "tasks": "bome.tasks",
    "testing": "bome.testing",
}
"""Names that are imported when they are asked for, and from where; scikit-learn alone takes longer than the rest."""

__all__ = [
    "BOME", "AdamDescent", "AutogradOracle", "BackwardOracle", "Batches", "BilevelError", "Certificate", "Data",
    "DataMixture", "FirstOf", "FuncOracle", "GradientDescent", "History", "HyperCleaner", "Indexed",
    "LearnedRegularization", "LearnedRegularizationRegressor", "MaxEvaluations", "MaxSeconds", "MaxSteps",
    "MicroBatches", "Minibatches", "NonFiniteError", "PerSample", "Problem", "ProblemError", "Progress", "RankError",
    "RankSampler", "Record", "Refit", "Result", "RowSGD", "RunInterruptedError", "Solution", "Solver", "Start",
    "Stationary", "Stepper", "Stop", "StorageError", "TorchOptim", "Trained", "Tuner", "UnsupportedError",
    "WorkerError", "affine", "ball", "box", "data", "gather_rows", "half_space", "hypergradcheck", "joint", "methods",
    "nonnegative", "polyhedron", "product", "refit", "register", "run", "simplex", "solve", "tasks", "testing",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    return module if _LATER[name] == f"{__name__}.{name}" else getattr(module, name)
