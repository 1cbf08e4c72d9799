"""Bilevel optimisation made easy: min over (v, θ) of f(v, θ), where θ must minimise g(v, ·)."""

from bome import methods, tasks, testing
from bome.data import Data, Minibatches
from bome.hypergradients import hypergradcheck
from bome.inner import Adam, GradientDescent, TorchOptim
from bome.loop import Result, run
from bome.methods import BOME
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle
from bome.problem import Batches, PerSample, Problem
from bome.projections import ball, box, nonnegative, simplex
from bome.stepper import Stepper
from bome.stopping import MaxSteps
from bome.tuner import Tuner

__version__ = "0.1.0"

__all__ = [
    "BOME",
    "Adam",
    "AutogradOracle",
    "BackwardOracle",
    "Batches",
    "Data",
    "FuncOracle",
    "GradientDescent",
    "MaxSteps",
    "Minibatches",
    "PerSample",
    "Problem",
    "Result",
    "Stepper",
    "TorchOptim",
    "Tuner",
    "ball",
    "box",
    "hypergradcheck",
    "methods",
    "nonnegative",
    "run",
    "simplex",
    "tasks",
    "testing",
]
