"""The methods, one file each, and all that the author of another one needs."""

from bome._checks import check_choice, check_count, check_decay, check_nonnegative, check_positive
from bome._typing import Leaves, State
from bome.core.barrier import (
    Metric,
    Phi,
    Products,
    barrier,
    euclidean,
    kkt_gradient,
    multiplier,
    weighted,
)
from bome.core.linalg import conjugate_gradients, neumann
from bome.core.trees import Pair, add, axpy, clone, dot, number, products, scale, sub, where, zeros_like
from bome.errors import ProblemError, UnsupportedError
from bome.inner import AdamDescent, DifferentiableMap, GradientDescent, InnerMap, StepMap, TorchOptim
from bome.methods.aid_cg import AIDCG
from bome.methods.aid_fp import AIDFP
from bome.methods.base import Info, Method, Step, second_order
from bome.methods.batched import Batched
from bome.methods.bome import BOME
from bome.methods.bome_qp import BOMEQP
from bome.methods.bome_z import BOMEZ
from bome.methods.bsg1 import BSG1
from bome.methods.bvfsm import BVFSM, stepped
from bome.methods.compiled import Compiled
from bome.methods.darts import DARTS, cross_difference
from bome.methods.f2sa import F2SA
from bome.methods.gda import GDA, negative
from bome.methods.itd import ITD
from bome.methods.meha import MEHA
from bome.methods.mrbo import MRBO
from bome.methods.ogda import OGDA
from bome.methods.pbgd import PBGD
from bome.methods.penalty import Penalty
from bome.methods.probe import Probe
from bome.methods.reverse import Reverse
from bome.methods.saba import SABA
from bome.methods.sama import SAMA
from bome.methods.soba import SOBA, descended
from bome.methods.stocbio import StocBiO
from bome.methods.trajectory import check_differentiable, projected
from bome.methods.vrbo import VRBO
from bome.oracles import Ahead, AutogradOracle, BackwardOracle, Eval, FuncOracle, Needs, Oracle
from bome.oracles.linear import Linear
from bome.problem import Batches, Problem
from bome.solver import Solver

__all__ = [
    "AIDCG", "AIDFP", "BOME", "BOMEQP", "BOMEZ", "BSG1", "BVFSM", "DARTS", "F2SA", "GDA", "ITD",
    "MEHA", "MRBO", "OGDA", "PBGD", "SABA", "SAMA", "SOBA", "VRBO",
    "AdamDescent", "Ahead", "AutogradOracle", "BackwardOracle", "Batched", "Batches",
    "Compiled", "DifferentiableMap", "Eval", "FuncOracle", "GradientDescent", "Info", "InnerMap", "Leaves", "Linear",
    "Method", "Metric", "Needs", "Oracle", "Pair", "Penalty", "Phi", "Probe", "Problem", "ProblemError", "Products",
    "Reverse", "Solver", "State", "Step", "StepMap", "StocBiO", "TorchOptim", "UnsupportedError", "add", "axpy",
    "barrier", "check_choice", "check_count", "check_decay", "check_differentiable", "check_nonnegative",
    "check_positive", "clone", "conjugate_gradients", "cross_difference", "descended", "dot", "euclidean",
    "kkt_gradient", "multiplier", "negative", "neumann", "number", "products", "projected", "scale", "second_order",
    "stepped", "sub", "weighted", "where", "zeros_like",
]  # fmt: skip
