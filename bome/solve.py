"""Run a plan: the task's variables, its optimisers and schedulers, and the loop around the method."""

from collections.abc import Callable

from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from bome.inner import check_rate
from bome.loop import Record, Result, run
from bome.oracles import OracleName
from bome.problem import Problem
from bome.registry import Plan
from bome.stopping import MaxSteps, Progress


def solve(
    plan: Plan,
    *,
    log_every: int | None = None,
    record: Record | None = None,
    progress: Callable[[Progress], None] | None = None,
    oracle: OracleName = "auto",
) -> Result:
    """Run a plan by gradient descent with the settings' step sizes, momentum and decay."""
    task, settings = plan.task, plan.settings
    check_rate("outer_lr (ξ_v)", settings.outer_lr)
    check_rate("theta_lr (ξ_θ)", settings.theta_lr)
    stop = MaxSteps(settings.steps)
    outer_opt = SGD(task.problem.v.leaves, settings.outer_lr, momentum=settings.momentum)
    inner_opt = SGD(task.problem.theta.leaves, settings.theta_lr, momentum=settings.momentum)
    schedulers = []
    if settings.decay:
        schedulers = [
            LambdaLR(opt, lambda k: min(1.0, (settings.decay / (k + 1)) ** 0.5)) for opt in (outer_opt, inner_opt)
        ]

    def observe(problem: Problem) -> dict[str, float]:
        return {} if task.optimum is None else {"distance_to_optimum": task.optimum.distance(problem.point)}

    return run(
        task.problem,
        plan.method,
        outer_opt=outer_opt,
        inner_opt=inner_opt,
        stop=stop,
        schedulers=schedulers,
        oracle=oracle,
        tuner=plan.tuner,
        observe=observe,
        log_every=log_every or max(1, settings.steps // 500),
        record=record,
        progress=progress,
        solve_inner=task.solve_inner,
    )
