"""The authors' runs of their toy tasks, which several methods are compared with."""

import torch

from bome import Problem, Stepper
from bome.methods import Method
from bome.tasks import Task, coreset
from tests.support.transcribed import Coreset

X4 = {"code": (-3.0, -2.0), "paper": (-3.0, 2.0)}
"""The fourth point of the coreset task, in their code and in the paper."""


def released_coreset(x4: str) -> Task:
    """The coreset task of the code with either value of x4, and f with the factor 0.1."""
    p = Coreset(X4[x4])
    points, x0 = torch.from_numpy(p.points), torch.from_numpy(p.x0)
    problem = Problem(
        lambda v, theta, batch: 0.1 * (theta - x0).square().sum(),
        lambda v, theta, batch: (v.softmax(0) @ points - theta).square().sum(),
        torch.zeros(4, dtype=torch.float64),
        torch.tensor([0.0, 3.0], dtype=torch.float64),
    )
    base = coreset()
    return Task("coreset", x4, "a", problem, base.settings, published=base.published)


def stepper_of(task: Task, method: Method) -> Stepper:
    """A stepper with the step sizes of the task."""
    s, problem = task.settings, task.problem
    return Stepper(
        problem,
        method,
        outer_opt=torch.optim.SGD(problem.v.leaves, lr=s.outer_lr),
        inner_opt=torch.optim.SGD(problem.theta.leaves, lr=s.theta_lr),
    )


def run_out(task: Task, method: Method) -> Stepper:
    """All steps of the task."""
    stepper = stepper_of(task, method)
    for _ in range(task.settings.steps):
        stepper.step()
    return stepper
