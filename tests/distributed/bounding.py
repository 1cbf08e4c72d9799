"""Steps of `bome` between bounds, some of them active, on the samples that one process has as a whole."""

from typing import Literal

import torch
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper, box
from bome.core.ranks import whole
from bome_studies.matrix import models
from tests.distributed.resuming import WRAP, place

STEPS, MOST, LARGEST = 4, 0.002, 0.1
"""How many steps; the bounds of v and of θ, on both sides of 0."""


def bounded(kind: str, counts: Literal["left", "all"] = "left") -> dict[str, list[float]]:
    """λ of each step, v and θ at the end."""
    rank, world = place(kind)
    inner, outer = (models.share(models.samples(n, seed), rank, world) for n, seed in ((24, 1), (16, 2)))
    with torch.random.fork_rng():
        net = WRAP[kind](models.residual())
    v = torch.zeros(models.SOURCES)
    boxes = box(-MOST, MOST), box(-LARGEST, LARGEST)
    problem = Problem(models.outer, models.inner, v, net, project_v=boxes[0], project_theta=boxes[1])
    optimisers = SGD([v], 0.5), SGD(problem.theta.leaves, 0.1)
    stepper = Stepper(problem, BOME(GradientDescent(0.1, 5), counts=counts), *optimisers)
    taken = [stepper.step(inner=inner, outer=outer) for _ in range(STEPS)]
    theta = torch.cat([whole(x).detach().reshape(-1) for x in problem.theta.leaves])
    return {"lam": [float(x.lam) for x in taken if x.lam is not None], "v": v.tolist(), "theta": theta.tolist()}
