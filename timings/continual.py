"""Continual learning: an outer update of `ctn+bome` against its bare evaluations, on both streams of the paper.

The images are random: only the cost matters here. The bare evaluations are those of a step (T + 1 of g, one of f) with
`torch.autograd.grad` on the same networks and batches, and nothing else. Beside them stands the same update written by
hand for these networks, in single precision and without any check: what is left for it to do besides the evaluations
are some passes over all parameters.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from bome.continual.contextual import Contextual, Inner
from bome.continual.run import make_strategy
from bome.continual.settings import Settings
from bome.continual.streams import Labelled, Stream
from timings.table import TIMING_HEADER, show, timing_row
from timings.timing import compare

SAMPLES = 100
"""Training images of a task."""


def pmnist() -> Stream:
    """Random images in the form of permuted MNIST."""
    return _stream("continual-pmnist", 20, (784,), 10)


def cifar() -> Stream:
    """Random images in the form of split CIFAR-100."""
    return _stream("continual-cifar", 17, (32, 32, 3), 5)


def _stream(name: str, tasks: int, shape: tuple[int, ...], classes: int) -> Stream:
    draw = torch.Generator().manual_seed(0)
    train = torch.randint(256, (tasks, SAMPLES, *shape), dtype=torch.uint8, generator=draw)
    labels = torch.randint(classes, (tasks, SAMPLES), generator=draw)
    return Stream(name, "learning", train, labels, train[:1], labels[:1], None, classes, len(shape) == 1, 0)


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
        for _ in range(strategy.settings.inner_steps - 1):
            v.requires_grad_(False)
            grad(strategy.inner(v, net, inner), of_theta)
            v.requires_grad_(True)
        net.requires_grad_(False)
        grad(strategy.inner(v, net, inner), of_v)
        net.requires_grad_(True)
        grad(strategy.outer(v, net, outer), of_v + of_theta)

    return evaluate


def by_hand(strategy: Contextual, inner: Inner, outer: Labelled) -> Callable[[], None]:
    """The update as one would write it for these networks only."""
    v, net, choices = strategy.controller, strategy.base, strategy.settings
    of_v: list[Tensor] = list(v.parameters())
    of_theta: list[Tensor] = list(net.parameters())

    @torch.no_grad()
    def move(leaves: list[Tensor], direction: Sequence[Tensor], size: float) -> None:
        torch._foreach_add_(leaves, list(direction), alpha=-size)

    def update() -> None:
        g = torch.autograd.grad(strategy.inner(v, net, inner), of_v + of_theta)
        g_v, g_theta = g[: len(of_v)], g[len(of_v) :]
        start = [x.detach().clone() for x in of_theta]
        move(of_theta, g_theta, choices.theta_lr)
        for _ in range(choices.inner_steps - 1):
            v.requires_grad_(False)
            move(of_theta, torch.autograd.grad(strategy.inner(v, net, inner), of_theta), choices.theta_lr)
            v.requires_grad_(True)
        net.requires_grad_(False)
        ahead = torch.autograd.grad(strategy.inner(v, net, inner), of_v)
        net.requires_grad_(True)
        with torch.no_grad():
            torch._foreach_copy_(of_theta, start)
        f = torch.autograd.grad(strategy.outer(v, net, outer), of_v + of_theta)
        dq = [*torch._foreach_sub(g_v, ahead), *g_theta]
        fq = torch.stack([torch.dot(a.flatten(), b.flatten()) for a, b in zip(f, dq, strict=True)]).sum()
        qq = torch.stack([torch.dot(a.flatten(), a.flatten()) for a in dq]).sum()
        delta = list(torch._foreach_mul(dq, torch.clamp(choices.eta - fq / qq, min=0)))
        torch._foreach_add_(delta, list(f))
        of_v_delta = torch._foreach_mul(delta[: len(of_v)], 1 / choices.updates)
        move(of_v, torch._foreach_clamp_min(torch._foreach_clamp_max(of_v_delta, 1.0), -1.0), choices.outer_lr)
        move(of_theta, delta[len(of_v) :], choices.theta_lr)

    return update


def measure(tasks: Stream, task: int, rounds: int, calls: int) -> None:
    """Time both at one task, and print."""
    strategy = make_strategy("ctn+bome", tasks, Settings())
    assert isinstance(strategy, Contextual)  # noqa: S101 - for the type checker
    inner, outer = batches(strategy, task)
    candidates: dict[str, Callable[[], object]] = {
        "bare T+2 evaluations": bare_evaluations(strategy, inner, outer),
        "the update by hand": by_hand(strategy, inner, outer),
        "ctn+bome update": partial(strategy.stepper.step, outer=outer, inner=inner),
    }
    timings = compare(candidates, rounds=rounds, calls=calls)
    rows = [timing_row(name, t, "≤ 1.1" if "bome" in name else "") for name, t in timings.items()]
    about = f"{len(inner.samples.y)} samples of g, {len(outer.y)} of f"
    title = f"{tasks.name}, task {task + 1} of {tasks.tasks}: {about}, {torch.get_num_threads()} threads"
    show(title, TIMING_HEADER, rows)


def main() -> None:
    """Measure and print."""
    for tasks, rounds, calls in ((pmnist(), 25, 4), (cifar(), 9, 1)):
        for task in (0, tasks.tasks // 2, tasks.tasks - 1):
            measure(tasks, task, rounds, calls)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
