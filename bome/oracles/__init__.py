"""Oracles: three ways to evaluate the losses of a problem with their gradients."""

from typing import Literal

from bome.core.ranks import synchronises
from bome.errors import ProblemError
from bome.oracles.autograd import AutogradOracle
from bome.oracles.backward import BackwardOracle
from bome.oracles.base import Ahead, ConstraintEval, Eval, Needs, Oracle
from bome.oracles.func import FuncOracle
from bome.problem import Problem

OracleName = Literal["auto", "autograd", "func", "backward"]

__all__ = [
    "Ahead", "AutogradOracle", "BackwardOracle", "ConstraintEval", "Eval", "FuncOracle", "Needs", "Oracle",
    "OracleName", "make",
]  # fmt: skip


def make(problem: Problem, oracle: OracleName | Oracle) -> Oracle:
    """The oracle of that name for the problem; "auto" takes `BackwardOracle` for DDP and FSDP2 modules."""
    if isinstance(oracle, Oracle):
        if oracle.problem is not problem:
            raise ProblemError("the oracle was made for another problem: make it anew, or give its name")
        return oracle
    if oracle == "auto":
        oracle = "backward" if any(synchronises(module) for module in problem.modules) else "autograd"
    kinds: dict[str, type[Oracle]] = {"autograd": AutogradOracle, "func": FuncOracle, "backward": BackwardOracle}
    if oracle not in kinds:
        raise ProblemError(f"oracle must be 'auto', {', '.join(map(repr, kinds))} or an Oracle, got {oracle!r}")
    return kinds[oracle](problem)
