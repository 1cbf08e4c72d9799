"""Bilevel optimisation made easy: min over (v, θ) of f(v, θ), where θ must minimise g(v, ·)."""

from bome.inner import Adam, GradientDescent, TorchOptim
from bome.methods import BOME
from bome.oracles import AutogradOracle, BackwardOracle, FuncOracle
from bome.problem import Batches, PerSample, Problem
from bome.projections import ball, box, nonnegative, simplex
from bome.stepper import Stepper

__version__ = "0.1.0"

__all__ = [
    "BOME",
    "Adam",
    "AutogradOracle",
    "BackwardOracle",
    "Batches",
    "FuncOracle",
    "GradientDescent",
    "PerSample",
    "Problem",
    "Stepper",
    "TorchOptim",
    "ball",
    "box",
    "nonnegative",
    "simplex",
]
