"""What is measured beside the cells of the matrix: messages, memory, precision, and what must fail."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from bome._typing import State
from bome.core.barrier import Metric
from bome.core.ranks import Ranks, local
from bome.core.trees import Pair, dot
from bome.errors import NonFiniteError
from bome.inner import GradientDescent
from bome.methods import BOME
from bome.methods.base import Batches, Step
from bome.oracles.base import Oracle
from bome.per_sample import PerSample, gather_rows
from bome.problem import Problem
from bome.stepper import Stepper
from bome_studies.matrix import models as models
from bome_studies.matrix.cells import METHODS, bitwise_equal, reference, sharded, steps

LAYERS, WIDTH = 12, 1024
"""Of the model whose memory is measured: many weights and next to no activations."""
T = 5
"""Inner steps where messages and precision are measured."""


def of_one_process() -> dict[str, Any]:
    """What one process can measure alone."""
    return {"precision": precision()}


def of_two_ranks() -> dict[str, Any]:
    """What two ranks measure together."""
    import torch.distributed as dist

    world = dist.group.WORLD
    assert world is not None  # noqa: S101 - the group has been made
    ranks = Ranks(world)
    return {
        "messages": messages(ranks),
        "late_average": late_average(ranks),
        "rows": rows(ranks),
        "unshared_nan": unshared_nan(ranks),
    }


# --- messages ---------------------------------------------------------------------------------------------------------


class Messages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the collective operations that are called, with the number of entries each sends."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sent: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note it, and do it."""
        if (
            func.namespace in ("c10d", "_c10d_functional")
            and "wait" not in func.__name__
            and "wrap" not in func.__name__
        ):
            self.sent.append((func.__name__.split(".")[0], sum(x.numel() for x in _tensors(args[:2]))))
        return func(*args, **(kwargs or {}))

    def without_reductions(self) -> dict[str, int]:
        """How many there are of each kind and size, but for sums over ranks."""
        return dict(
            Counter(
                f"{name} {size}" for name, size in self.sent if "allreduce" not in name and "all_reduce" not in name
            )
        )

    def reductions(self) -> list[int]:
        """The entries of each sum over ranks, in order."""
        return [size for name, size in self.sent if "allreduce" in name or "all_reduce" in name]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def messages(ranks: Ranks) -> dict[str, Any]:
    """The messages of one BOME step under FSDP2, and of its T + 2 evaluations alone."""
    inner_batch, outer_batch = (models.share(models.samples(24, seed), ranks.rank, ranks.size) for seed in (1, 2))
    v, net = torch.zeros(models.SOURCES), sharded(models.residual())
    stepper = Stepper(Problem(models.outer, models.inner, v, net), BOME(GradientDescent(0.1, T)), SGD([v], 0.1))
    stepper.step(inner=inner_batch, outer=outer_batch)  # the first step checks more
    with Messages() as step:
        stepper.step(inner=inner_batch, outer=outer_batch)
    with Messages() as bare:
        for _ in range(T + 1):
            models.inner(v, net, inner_batch).backward()  # type: ignore[no-untyped-call]
        models.outer(v, net, outer_batch).backward()  # type: ignore[no-untyped-call]
    return {
        "step": step.without_reductions(),
        "evaluations": bare.without_reductions(),
        "step_sums": step.reductions(),
        "evaluation_sums": bare.reductions(),
        "v": v.numel(),
    }


# --- what must fail, and what must not --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LateAverage(BOME):
    """The negative control: every rank makes its own multiplier, and directions are averaged."""

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """A wrong step."""
        import torch.distributed as dist

        world = dist.group.WORLD
        assert world is not None  # noqa: S101 - the group has been made
        step = super().step(oracle, point, state, batches, metric)
        mean = Ranks(world).mean(step.direction.v + step.direction.theta)
        return step._replace(direction=Pair(mean[: len(point.v)], mean[len(point.v) :]))


def late_average(ranks: Ranks) -> float:
    """How far from the reference one comes if gradients are averaged after λ has been made of them."""
    pair = [models.share(models.samples(n, seed), ranks.rank, ranks.size) for n, seed in ((24, 1), (8, 2))]
    end = steps(models.residual(), LateAverage(GradientDescent(0.1, 5)), pair[0], pair[1], "autograd")
    return float((end - reference(models.residual, "bome")).abs().max())


def rows(ranks: Ranks) -> dict[str, Any]:
    """A weight per sample, local to the rank of the sample: the largest difference from one process."""
    whole = models.samples(24, 1)
    own = torch.arange(24)[ranks.rank :: ranks.size]

    def end(net: nn.Module, seen: Tensor, target: models.Batch) -> tuple[Tensor, Tensor]:
        table = PerSample(24, init=0.5)
        problem = Problem(_weighted_outer, _weighted_inner, table, net)
        stepper = Stepper(problem, METHODS["bome"], SGD([table.values], 2.0), SGD(problem.theta.leaves, 0.1))
        for _ in range(3):
            stepper.step(inner=(*(x[seen] for x in whole), seen), outer=target)
        return table.values, torch.cat([x.detach().reshape(-1) for x in problem.theta.leaves])

    target = models.samples(8, 2)
    table, theta = end(DistributedDataParallel(models.residual()), own, models.share(target, ranks.rank, ranks.size))
    one_table, one_theta = end(models.residual(), torch.arange(24), target)
    return {
        "v": float((gather_rows(table, own) - one_table).abs().max()),
        "theta": float((theta - one_theta).abs().max()),
        "moved": float((one_table - 0.5).abs().max()),
        "same": bitwise_equal(theta, ranks),
    }


def _weighted_inner(w: Tensor, net: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    x, y, *_ = batch
    loss: Tensor = (w * nn.functional.cross_entropy(net(x), y, reduction="none")).mean()
    return loss


def _weighted_outer(w: Tensor, net: nn.Module, batch: models.Batch) -> Tensor:
    return models.outer(w, net, batch)


def unshared_nan(ranks: Ranks) -> dict[str, Any]:
    """NaN on one rank only: what each kind of module says on this rank, and whether anything moved on any."""
    modules = {}
    for name, wrap in (("ddp", DistributedDataParallel), ("fsdp", sharded)):
        net, v = wrap(models.residual()), torch.zeros(models.SOURCES)
        problem = Problem(models.outer, models.inner, v, net)
        stepper = Stepper(problem, METHODS["bome"], SGD([v], 0.1))
        batches = [models.share(models.samples(n, seed), ranks.rank, ranks.size) for n, seed in ((24, 1), (8, 2))]
        if ranks.rank == ranks.size - 1:
            batches[1].x[0, 0] = float("nan")
        before = [local(x).clone() for x in problem.theta.leaves]
        try:
            stepper.step(inner=batches[0], outer=batches[1])
            message = ""
        except NonFiniteError as error:
            message = str(error)
        still = all(torch.equal(local(x), y) for x, y in zip(problem.theta.leaves, before, strict=True))
        everywhere = ranks.all_agree(bool(message) and still and not v.any())
        modules[name] = {"message": message, "everywhere": everywhere}
    return modules


# --- memory -----------------------------------------------------------------------------------------------------------


class Wide(nn.Module):
    """Many weights and next to no activations, so that θ-size vectors are what a step needs."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """A chain of tanh layers."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def memory(ranks: int) -> dict[str, float]:
    """The peak of a BOME step over that of plain training, in copies of the trainable parameters of this rank.

    Over several ranks the model is sharded by FSDP2. Resident memory: the environment must make freed blocks return to
    the system at once.
    """
    torch.manual_seed(0)
    net, x, v = Wide() if ranks == 1 else sharded(Wide()), torch.randn(1, WIDTH), torch.ones(())
    opt = SGD(net.parameters(), 1e-3)
    copy = sum(local(p).numel() * p.element_size() for p in net.parameters())

    def inner(v: Tensor, net: nn.Module, _: Any) -> Tensor:
        loss: Tensor = v * net(x).square().mean()
        return loss

    def plain() -> None:
        inner(v, net, None).backward()  # type: ignore[no-untyped-call]
        opt.step()
        opt.zero_grad(set_to_none=True)

    problem = Problem(lambda v, net, _: (net(x) - v).square().mean(), inner, v, net)
    peaks = _peaks({"plain": plain, **{f"T = {t}": _in_place(problem, t, opt).step for t in (1, 8)}})
    over = {name: (peak - peaks["plain"]) / copy for name, peak in peaks.items() if name != "plain"}
    return {"copy": copy / 1e6, **over}


def _in_place(problem: Problem, inner_steps: int, opt: Optimizer) -> Stepper:
    v = problem.v.leaves[0]
    return Stepper(problem, BOME(GradientDescent(1e-3, inner_steps)), SGD([v], 0.1), opt, oracle="backward")


def _peaks(steps: Mapping[str, Callable[[], Any]]) -> dict[str, int]:
    """The largest resident size during each step: the least of six, since what the allocator keeps only adds to it.

    The steps take turns, so that what the process loads or keeps meanwhile counts for all of them alike.
    """
    rounds: dict[str, list[int]] = {name: [] for name in steps}
    for _ in range(7):
        for name, step in steps.items():
            with _measured() as peak:
                step()
            rounds[name] += peak
    return {name: min(sizes[1:]) for name, sizes in rounds.items()}  # the first one loads


@contextmanager
def _measured() -> Iterator[list[int]]:
    """Fills the list with the largest resident size of this process meanwhile, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    peak: list[int] = []
    yield peak
    lines = Path("/proc/self/status").read_text().splitlines()
    peak.extend(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# --- precision --------------------------------------------------------------------------------------------------------


def precision() -> dict[str, float]:
    """λ and the length of the direction in bfloat16 autocast and in float32: transformer, weights of sources, T = 5."""
    shape = (models.TOKENS, models.WIDTH)
    inner_batch, outer_batch = models.samples(48, 1, shape), models.samples(48, 2, shape)
    lams, lengths = [], []
    for wrap in (lambda loss: loss, models.in_bfloat16):
        v, net = torch.zeros(models.SOURCES), models.transformer()
        problem = Problem(wrap(models.outer), wrap(models.inner), v, net)
        stepper = Stepper(problem, BOME(GradientDescent(0.05, T)), SGD([v], 0.1))
        stepper.keep_direction = True
        info = stepper.step(inner=inner_batch, outer=outer_batch)
        assert info.lam is not None  # noqa: S101 - BOME has one
        assert stepper.direction is not None  # noqa: S101 - asked for
        delta = stepper.direction.v + stepper.direction.theta
        lams.append(float(info.lam))
        lengths.append(float(dot(delta, delta).sqrt()))
    return {
        "lam": lams[0],
        "lam_change": abs(lams[1] - lams[0]) / (1 + lams[0]),
        "length_change": abs(lengths[1] / lengths[0] - 1),
    }
