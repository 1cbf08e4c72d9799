"""Five routes to the same steps: three oracles, each evaluation compiled, and the whole step compiled."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome import AutogradOracle, BackwardOracle, Batches, FuncOracle, Problem, Stepper
from bome.methods import Compiled, Method
from bome.oracles import Oracle
from tests.support.samples import toy

EAGER: dict[str, Callable[[Problem], Oracle]] = {
    "autograd": AutogradOracle,
    "func": FuncOracle,
    "backward": BackwardOracle,
}
ROUTES: dict[str, Callable[[Problem], Oracle]] = {
    **EAGER,
    "compiled evaluations": lambda problem: FuncOracle(problem, compiled=True),
    "compiled step": FuncOracle,
}


def toy_and_batches() -> tuple[Problem, Batches]:
    """The toy, whose losses need no data."""
    return toy(), Batches()


def path_of(route: str, make: Callable[[], tuple[Problem, Batches]], method: Method) -> list[Tensor]:
    """All points of 20 steps with momentum and falling step sizes; and the counts, which must be exact."""
    torch.compiler.reset()
    problem, batches = make()
    opts = SGD(problem.v.leaves, 0.05, momentum=0.5), SGD(problem.theta.leaves, 0.05)
    schedulers = [LambdaLR(opt, lambda k: (k + 1) ** -0.5) for opt in opts]
    method = Compiled(method) if route == "compiled step" else method
    stepper = Stepper(problem, method, *opts, oracle=ROUTES[route](problem))
    path = []
    for _ in range(20):
        info = stepper.step_on(batches)
        for scheduler in schedulers:
            scheduler.step()
        path += [x.clone() for x in (*problem.point.v, *problem.point.theta)]
        path += [x for x in (info.f, info.g, info.q, info.lam) if x is not None]
    assert stepper.counts == {"g": 20 * 4, "f": 20}
    return path
