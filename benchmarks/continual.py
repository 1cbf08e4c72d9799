"""Continual learning: an outer update of `ctn+bome` on permuted MNIST against its bare evaluations.

The images are random: only the cost matters here. The bare evaluations are those of a step (T + 1 of g, one of f) with
`torch.autograd.grad` on the same networks and batches, and nothing else.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.table import TIMING_HEADER, show, timing_row
from benchmarks.timing import compare
from bome.experiments.continual_strategies import Choices, Contextual, Inner, make_strategy
from bome.tasks.continual import Labelled, Stream

TASKS, SAMPLES = 20, 100


def stream() -> Stream:
    """Random images in the form of permuted MNIST."""
    draw = torch.Generator().manual_seed(0)
    train = torch.randint(256, (TASKS, SAMPLES, 784), dtype=torch.uint8, generator=draw)
    labels = torch.randint(10, (TASKS, SAMPLES), generator=draw)
    return Stream("continual-pmnist", "learning", train, labels, train[:1], labels[:1], None, 10, True, 0)


def batches(strategy: Contextual, task: int) -> tuple[Inner, Labelled]:
    """The batches of g and f in the middle of a task."""
    rows = strategy.remember(task, torch.arange(10))
    fresh = strategy.stream.training(torch.full_like(rows, task), rows)
    return strategy.with_replay(task, fresh), strategy.stream.training(*strategy.semantic.samples(task + 1))


def bare_evaluations(strategy: Contextual, inner: Inner, outer: Labelled) -> Callable[[], None]:
    """The T + 2 evaluations of a step and nothing else."""
    v, net = strategy.controller, strategy.base
    of_v, of_theta = tuple(v.parameters()), tuple(net.parameters())

    def grad(value: Tensor, leaves: tuple[Tensor, ...]) -> None:
        torch.autograd.grad(value, leaves)

    def evaluate() -> None:
        grad(strategy.inner(v, net, inner), of_v + of_theta)
        for _ in range(strategy.choices.inner_steps - 1):
            v.requires_grad_(False)
            grad(strategy.inner(v, net, inner), of_theta)
            v.requires_grad_(True)
        net.requires_grad_(False)
        grad(strategy.inner(v, net, inner), of_v)
        net.requires_grad_(True)
        grad(strategy.outer(v, net, outer), of_v + of_theta)

    return evaluate


def main() -> None:
    """Measure and print."""
    tasks = stream()
    for task in (0, TASKS // 2, TASKS - 1):
        strategy = make_strategy("ctn+bome", tasks, Choices())
        assert isinstance(strategy, Contextual)  # noqa: S101 - for the type checker
        inner, outer = batches(strategy, task)
        candidates: dict[str, Callable[[], object]] = {
            "bare T+2 evaluations": bare_evaluations(strategy, inner, outer),
            "ctn+bome update": partial(strategy.stepper.step, inner, outer),
        }
        timings = compare(candidates, rounds=25, calls=4)
        rows = [timing_row(name, t, "≤ 1.1" if "update" in name else "") for name, t in timings.items()]
        about = f"{len(inner.samples.y)} samples of g, {len(outer.y)} of f"
        show(f"task {task + 1} of {TASKS}: {about}, {torch.get_num_threads()} threads", TIMING_HEADER, rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
