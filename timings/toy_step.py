"""One BOME step on the coreset toy: eager and compiled against a hand-written loop, and many starts at once."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import SGD

from bome import BOME, Batches, FuncOracle, GradientDescent, Stepper
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.methods.compiled import Compiled
from bome.problem import Problem
from bome.tasks import coreset
from timings.table import TIMING_HEADER, show, timing_row
from timings.timing import compare

T, STEP, ETA = 10, 0.05, 0.5


class HandWritten:
    """The step as one would write it without a library: plain torch, T+2 evaluations."""

    def __init__(self, problem: Problem) -> None:
        self.f, self.g = problem.outer, problem.inner
        self.v, self.theta = (
            x.detach().clone().requires_grad_() for x in (problem.v.leaves[0], problem.theta.leaves[0])
        )
        self.outer_opt, self.inner_opt = SGD([self.v], STEP), SGD([self.theta], STEP)

    def step(self) -> None:
        """One outer step."""
        v, theta = self.v, self.theta
        g_v, g_theta = torch.autograd.grad(self.g(v, theta, None), (v, theta))
        ahead = (theta - STEP * g_theta).detach()
        for _ in range(T - 1):
            ahead.requires_grad_()
            (grad,) = torch.autograd.grad(self.g(v.detach(), ahead, None), ahead)
            ahead = (ahead - STEP * grad).detach()
        (g_v_ahead,) = torch.autograd.grad(self.g(v, ahead, None), v)
        (f_theta,) = torch.autograd.grad(self.f(v, theta, None), theta)
        q_v = g_v - g_v_ahead
        lam = torch.clamp(ETA - (f_theta @ g_theta) / (q_v @ q_v + g_theta @ g_theta), min=0)
        v.grad, theta.grad = lam * q_v, f_theta + lam * g_theta
        self.outer_opt.step()
        self.inner_opt.step()


def stepper(compiled: bool) -> Stepper:
    """BOME on the coreset."""
    problem = coreset().problem
    bome = BOME(GradientDescent(STEP, T), ETA)
    opts = SGD(problem.v.leaves, STEP), SGD(problem.theta.leaves, STEP)
    return Stepper(problem, Compiled(bome) if compiled else bome, *opts, oracle="func" if compiled else "autograd")


def one_step(problem: Problem) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(v, θ) after one step of plain gradient descent along BOME's direction, as a pure function."""
    oracle, method = FuncOracle(problem), BOME(GradientDescent(STEP, T), ETA)

    def step(v: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        delta = method.step(oracle, Pair((v,), (theta,)), {}, Batches(), Metric((STEP,), (STEP,))).direction
        return v - STEP * delta.v[0], theta - STEP * delta.theta[0]

    return step


class Functional:
    """The step and its update as one compiled function, without optimisers and checks."""

    def __init__(self) -> None:
        problem = coreset().problem
        self.v, self.theta = problem.v.leaves[0], problem.theta.leaves[0]
        self._step = torch.compile(one_step(problem), dynamic=False)

    def step(self) -> None:
        """One outer step."""
        self.v, self.theta = self._step(self.v, self.theta)


def main() -> None:
    """Measure and print."""
    hand, eager, whole = HandWritten(coreset().problem), stepper(False), stepper(True)
    whole.step()
    whole.step()  # compiles
    functional = Functional()
    result = compare(
        {
            "hand-written torch loop": hand.step,
            "BOME eager, Stepper": eager.step,
            "BOME compiled, Stepper": whole.step,
            "BOME compiled, functional": functional.step,
        },
        rounds=31,
        calls=40,
    )
    goals = {"BOME eager, Stepper": "≤ 1.5", "BOME compiled, Stepper": "≤ 0.1", "BOME compiled, functional": "≤ 0.1"}
    rows = [timing_row(name, t, goals.get(name, "")) for name, t in result.items()]
    show("coreset, T = 10, one outer step", TIMING_HEADER, rows)
    starts()


def starts(count: int = 64) -> None:
    """`vmap` over many starts against one."""
    problem = coreset().problem
    one = one_step(problem)
    v, theta = problem.v.leaves[0].repeat(count, 1), problem.theta.leaves[0] + torch.randn(count, 2).double()
    many = torch.func.vmap(one)
    result = compare(
        {"one start": lambda: one(v[0], theta[0]), f"{count} starts by vmap": lambda: many(v, theta)}, 15, 10
    )
    rows = [timing_row(name, t, f"{count} starts" if "vmap" in name else "") for name, t in result.items()]
    show("coreset: many starts in one step", TIMING_HEADER, rows)
