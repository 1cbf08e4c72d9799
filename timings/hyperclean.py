"""Hyper-cleaning at its full size: a BOME step against its bare evaluations and others; bounds; a sweep.

The others are the authors' way and JAX, where it is installed (`pip install 'bome[jax]'`). The images of the step are
random: only the cost matters there. Bounds and the sweep are of hyperclean-mnist itself.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD

from bome import BOME, GradientDescent, Problem, Stepper, box
from bome.data import Data
from bome.runs.jobs import Job, Outcome, grid
from bome.runs.plan import plan
from bome.runs.schedule import run_jobs
from bome.tasks.softmax import Model, Samples, cross_entropies, scores, with_one
from timings.table import TIMING_HEADER, show, timing_row
from timings.timing import compare

N, D, C, N_VAL = 50_000, 784, 10, 5_000
ALPHA, XI_V, XI, ETA = 0.01, 100.0, 0.01, 0.5


def samples(n: int, seed: int) -> Samples:
    """Random images and labels."""
    draw = torch.Generator().manual_seed(seed)
    return Samples(with_one(torch.randn(n, D, generator=draw)), torch.randint(C, (n,), generator=draw))


def inner(v: Tensor, theta: Model, batch: Samples) -> Tensor:
    """g of the task."""
    losses = cross_entropies(scores(theta, batch), batch.labels)
    return batch.mean(v.clamp(0, 1) * losses) + 0.001 * theta["weight"].square().sum()


def outer(v: Tensor, theta: Model, batch: Samples) -> Tensor:
    """f of the task."""
    return batch.mean(cross_entropies(scores(theta, batch), batch.labels))


def model() -> Model:
    """The start."""
    return {"weight": torch.zeros(C, D), "bias": torch.zeros(C)}


def step_of_library(train: Samples, val: Samples, steps: int) -> Callable[[], object]:
    """One step by `Stepper`."""
    v, theta = torch.full((N,), 0.5), model()
    stepper = Stepper(
        Problem(outer, inner, v, theta, project_v=box(0, 1)),
        BOME(GradientDescent(ALPHA, steps), eta=ETA, phi="gap"),
        SGD([v], XI_V, momentum=0.9),
        SGD(theta.values(), XI, momentum=0.9),
    )
    return partial(stepper.step, outer=val, inner=train)


def bare_evaluations(train: Samples, val: Samples, steps: int) -> Callable[[], None]:
    """The T + 2 evaluations of a step and nothing else."""
    v = torch.full((N,), 0.5, requires_grad=True)
    theta = {name: x.requires_grad_() for name, x in model().items()}
    fixed = {name: x.detach() for name, x in theta.items()}

    def evaluate() -> None:
        torch.autograd.grad(inner(v, theta, train), (v, *theta.values()))
        for _ in range(steps - 1):
            torch.autograd.grad(inner(v.detach(), theta, train), tuple(theta.values()))
        torch.autograd.grad(inner(v, fixed, train), v)
        torch.autograd.grad(outer(v, theta, val), tuple(theta.values()))

    return evaluate


def step_of_authors(train: Samples, val: Samples, steps: int) -> Callable[[], None]:
    """The same step written as the authors did, with T + 3 evaluations and the same kernels."""
    v = torch.full((N,), 0.5, requires_grad=True)
    theta = {name: x.requires_grad_() for name, x in model().items()}
    v_opt, theta_opt = SGD([v], XI_V, momentum=0.9), SGD(theta.values(), XI, momentum=0.9)

    def step() -> None:
        ahead = {name: x.detach().clone().requires_grad_() for name, x in theta.items()}
        inner_opt = SGD(ahead.values(), ALPHA)
        for _ in range(steps):
            inner_opt.zero_grad()
            for x, grad in zip(
                ahead.values(), torch.autograd.grad(inner(v, ahead, train), tuple(ahead.values())), strict=True
            ):
                x.grad = grad
            inner_opt.step()
        f_theta = torch.autograd.grad(outer(v, theta, val), tuple(theta.values()))
        q = inner(v, theta, train) - inner(v, {name: x.detach() for name, x in ahead.items()}, train)
        q_v, *q_theta = torch.autograd.grad(q, (v, *theta.values()))
        norm = q_v.square().sum() + sum(x.square().sum() for x in q_theta)
        dot = sum((a * b).sum() for a, b in zip(f_theta, q_theta, strict=True))
        lam = torch.relu((ETA * q - dot) / (norm + 1e-8)).detach()
        v.grad = lam * q_v
        for x, a, b in zip(theta.values(), f_theta, q_theta, strict=True):
            x.grad = a + lam * b
        v_opt.step()
        theta_opt.step()
        with torch.no_grad():
            v.clamp_(0, 1)

    return step


def step_of_jax(train: Samples, val: Samples, steps: int) -> Callable[[], object] | None:
    """The same step jitted in JAX; None where it is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    x, y = jnp.asarray(train.x[:, :-1].numpy()), jnp.asarray(train.labels.numpy())
    x_val, y_val = jnp.asarray(val.x[:, :-1].numpy()), jnp.asarray(val.labels.numpy())

    def losses(theta: Any, x: Any, y: Any) -> Any:
        z = jax.nn.log_softmax(x @ theta["weight"].T + theta["bias"])
        return -jnp.take_along_axis(z, y[:, None], axis=1)[:, 0]

    def g(v: Any, theta: Any) -> Any:
        return (jnp.clip(v, 0, 1) * losses(theta, x, y)).mean() + 0.001 * jnp.square(theta["weight"]).sum()

    def f(theta: Any) -> Any:
        return losses(theta, x_val, y_val).mean()

    tree = jax.tree_util.tree_map

    def step(state: Any) -> Any:
        v, theta, m_v, m_theta = state
        value, (g_v, g_theta) = jax.value_and_grad(g, argnums=(0, 1))(v, theta)
        ahead = tree(lambda a, b: a - ALPHA * b, theta, g_theta)

        def walk(_: int, ahead: Any) -> Any:
            return tree(lambda a, b: a - ALPHA * b, ahead, jax.grad(g, argnums=1)(v, ahead))

        ahead = jax.lax.fori_loop(0, steps - 1, walk, ahead)
        value_t, v_t = jax.value_and_grad(g)(v, ahead)
        f_theta, q_v, q = jax.grad(f)(theta), g_v - v_t, value - value_t
        flat = jax.tree_util.tree_leaves
        norm = jnp.square(q_v).sum() + sum(jnp.square(b).sum() for b in flat(g_theta))
        dot = sum((a * b).sum() for a, b in zip(flat(f_theta), flat(g_theta), strict=True))
        lam = jnp.maximum((ETA * q - dot) / norm, 0)
        m_v = 0.9 * m_v + lam * q_v
        m_theta = tree(lambda m, a, b: 0.9 * m + a + lam * b, m_theta, f_theta, g_theta)
        return jnp.clip(v - XI_V * m_v, 0, 1), tree(lambda a, m: a - XI * m, theta, m_theta), m_v, m_theta

    compiled = jax.jit(step)
    theta = {"weight": jnp.zeros((C, D)), "bias": jnp.zeros(C)}
    state = [(jnp.full(N, 0.5), theta, jnp.zeros(N), tree(jnp.zeros_like, theta))]

    def advance() -> object:
        state[0] = jax.block_until_ready(compiled(state[0]))
        return state[0]

    return advance


class Cost(NamedTuple):
    """What a sweep takes, in seconds."""

    wall: float
    cpu: float


def swept(jobs: Sequence[Job], *, batched: bool) -> tuple[Cost, dict[Job, Outcome]]:
    """The cost of some runs, as batches or one after the other, and their outcomes."""
    with TemporaryDirectory() as folder:
        start, start_cpu = time.perf_counter(), time.process_time()
        outcomes = run_jobs(jobs, Path(folder), batched=batched)
        return Cost(time.perf_counter() - start, time.process_time() - start_cpu), outcomes


def difference(some: Mapping[Job, Outcome], others: Mapping[Job, Outcome]) -> float:
    """The largest relative difference between the losses at the end of the same runs."""
    return max(
        abs(float(outcome.last[name]) / float(others[job].last[name]) - 1)
        for job, outcome in some.items()
        for name in ("val2_loss", "test_loss")
    )


def sweep() -> None:
    """Measure and print a sweep of hyperclean-mnist: 20 configurations on 3 seeds, three steps of each run."""
    axes = {"inner_steps": (1, 5, 10, 20), "outer_lr": (10.0, 50.0, 100.0, 500.0, 1000.0)}
    jobs = grid("hyperclean-mnist", "bome", {"steps": 3}, axes, seeds=3)
    for job in jobs:
        job.plan()  # reads and splits the images, and trains the starts where they are not in the cache
    rows, costs, apart = [], [], 0.0
    for inner_steps in axes["inner_steps"]:
        some = [job for job in jobs if dict(job.values)["inner_steps"] == inner_steps]
        one_by_one, outcomes = swept(some, batched=False)
        together, batch = swept(some, batched=True)
        apart = max(apart, difference(batch, outcomes))
        costs.append((one_by_one, together))
        rows.append(_sweep_row(f"T = {inner_steps}, {len(some)} runs", one_by_one, together))
    total = [Cost(*map(sum, zip(*side, strict=True))) for side in zip(*costs, strict=True)]
    rows.append(_sweep_row(f"all {len(jobs)} runs", *total))
    header = ("sweep", "one by one: s", "CPU s", "as batches: s", "CPU s", "times faster", "less CPU")
    show(f"hyperclean-mnist, 20 configurations × 3 seeds, {torch.get_num_threads()} threads", header, rows)
    print(f"Goal: 2 times less CPU. Largest relative difference of the losses at the end: {apart:.1e} (goal ≤ 1e-5).")


def _sweep_row(name: str, one_by_one: Cost, together: Cost) -> tuple[str, ...]:
    times = (f"{seconds:.1f}" for seconds in (*one_by_one, *together))
    return name, *times, f"{one_by_one.wall / together.wall:.2f}", f"{one_by_one.cpu / together.cpu:.2f}"


def step() -> None:
    """Measure and print a step."""
    train, val = samples(N, 0), samples(N_VAL, 1)
    for steps in (1, 10):
        candidates: dict[str, Callable[[], object]] = {
            "bare T+2 evaluations": bare_evaluations(train, val, steps),
            "BOME step": step_of_library(train, val, steps),
            "as the authors wrote it, T+3": step_of_authors(train, val, steps),
        }
        goals = {
            "BOME step": "≤ 1.05",
            "as the authors wrote it, T+3": "≥ 1.5 × BOME" if steps == 1 else "≥ 1.05 × BOME",
            "jitted in JAX": "BOME ≤ 1.2 ×",
        }
        jitted = step_of_jax(train, val, steps)
        if jitted is not None:
            candidates["jitted in JAX"] = jitted
        rows = [timing_row(name, t, goals.get(name, "")) for name, t in compare(candidates, rounds=7).items()]
        show(f"hyper-cleaning {N:,} × {D} → {C}, T = {steps}, {torch.get_num_threads()} threads", TIMING_HEADER, rows)


def bounds() -> None:
    """Measure and print a step whose λ counts what the bounds of v leave, against one with the paper's λ."""
    for steps in (1, 10):
        candidates = {name: _step_of_task(name, steps) for name in ("bome:paper", "bome")}
        rows = [timing_row(name, t) for name, t in compare(candidates, rounds=15).items()]
        show(f"hyperclean-mnist, T = {steps}, {torch.get_num_threads()} threads", TIMING_HEADER, rows)


def _step_of_task(method: str, steps: int) -> Callable[[], object]:
    """One step of a method on hyperclean-mnist itself."""
    made = plan("hyperclean-mnist", method, {"inner_steps": steps})
    optimisers, streams = made.optimisers(), made.task.streams
    stepper = Stepper(made.task.problem, made.method, optimisers.outer_opt, optimisers.inner_opt)
    data = streams(made.method, made.settings) if streams is not None else Data()
    return lambda: stepper.step_on(data.draw(inner=1, outer=1))


def main() -> None:
    """Measure and print all of it."""
    step()
    bounds()
    sweep()
