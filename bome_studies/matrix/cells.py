"""The cells of the matrix "runs wherever training runs": how a model is wrapped, and the step of each method there.

A cell is compared with the reference: the same steps of the same method by one process in float32 on the whole batch,
through `torch.func` and, where the model has attention, without the fused kernel.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from bome.core.microbatches import MicroBatches
from bome.core.ranks import Ranks, ranks_of, whole
from bome.errors import UnsupportedError
from bome.inner import GradientDescent
from bome.methods import AIDCG, BOME, BOMEZ, DARTS, F2SA, ITD, Probe
from bome.methods.base import Method
from bome.oracles import OracleName
from bome.problem import Batches, Problem
from bome.stepper import Stepper
from bome_studies.matrix import models as models

STEPS = 3
"""Outer steps of a trial."""
EXACT, BFLOAT16 = 1e-6, 5e-3
"""The largest difference from the reference in any entry of v and θ; where products are in bfloat16 the second."""

METHODS: Mapping[str, Method] = {
    "bome": BOME(GradientDescent(0.1, 5)),
    "bome-z": BOMEZ(GradientDescent(0.1, 5)),
    "probe": Probe(GradientDescent(0.1, 3), draw="one"),
    "f2sa": F2SA(GradientDescent(0.1, 3), lam=2.0),
    "darts": DARTS(GradientDescent(0.1, 3), R=0.5),
    "itd": ITD(GradientDescent(0.1, 3)),
    "aid-cg": AIDCG(GradientDescent(0.1, 3), K=2),
}
"""The methods of the matrix: five of first order, two that need second-order products."""


def _same(net: nn.Module) -> nn.Module:
    return net


def _compiled(net: nn.Module) -> nn.Module:
    return torch.compile(net, backend="aot_eager")  # type: ignore[return-value]


def _replicated(net: nn.Module) -> nn.Module:
    return DistributedDataParallel(net)


def sharded(net: nn.Module, **options: Any) -> nn.Module:
    """FSDP2 around each layer and around the whole."""
    from torch.distributed.fsdp import fully_shard

    for layer in net.layers:  # type: ignore[union-attr]
        fully_shard(layer, **options)
    fully_shard(net, **options)
    return net


def _sharded_bfloat16(net: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return sharded(net, mp_policy=policy)


@dataclass(frozen=True)
class Cell:
    """One way to train.

    Attributes:
        title: what it is, for people.
        ranks: how many processes it takes.
        model: makes the model.
        wrap: what is done to it.
        plain: makes the model of the reference; by default the same.
        mixed: whether the losses are in bfloat16 autocast.
        parts: micro-batches of each rank.
        oracle: as `Stepper` takes it.
        tolerance: on the difference from the reference.
    """

    title: str
    ranks: int = 1
    model: Callable[[], nn.Module] = models.residual
    wrap: Callable[[nn.Module], nn.Module] = _same
    plain: Callable[[], nn.Module] | None = None
    mixed: bool = False
    parts: int = 1
    oracle: OracleName = "auto"
    tolerance: float = EXACT


CELLS: Mapping[str, Cell] = {
    "plain": Cell("a plain module"),
    "backward": Cell("a plain module, stepped in place", oracle="backward"),
    "compile": Cell("a module under torch.compile", wrap=_compiled),
    "attention": Cell("a transformer with fused attention", model=models.transformer),
    "bf16": Cell("bfloat16 autocast", mixed=True, tolerance=BFLOAT16),
    "accumulation": Cell("gradient accumulation, 4 micro-batches", parts=4),
    "checkpointing": Cell("activation checkpointing", model=lambda: models.checkpointed(False), plain=models.residual),
    "reentrant": Cell(
        "activation checkpointing, reentrant",
        model=lambda: models.checkpointed(True),
        plain=models.residual,
        oracle="backward",
    ),
    "lora": Cell("low-rank adapters, the rest frozen", model=models.low_rank),
    "ddp-2": Cell("DDP, 2 ranks", 2, wrap=_replicated),
    "ddp-accumulation": Cell("DDP, 2 ranks, 2 micro-batches each", 2, wrap=_replicated, parts=2),
    "fsdp-2": Cell("FSDP2, 2 ranks, nested", 2, wrap=sharded),
    "fsdp-accumulation": Cell("FSDP2, 2 ranks, 2 micro-batches each", 2, wrap=sharded, parts=2),
    "fsdp-bf16": Cell("FSDP2, 2 ranks, parameters in bfloat16", 2, wrap=_sharded_bfloat16, tolerance=BFLOAT16),
    "ddp-4": Cell("DDP, 4 ranks", 4, wrap=_replicated),
}
"""All cells by name."""


@dataclass(frozen=True)
class Attempt:
    """What became of a method in a cell.

    Attributes:
        cell: its name.
        method: its name.
        works: whether it ran; else it refused before the first step.
        error: the largest difference from the reference in any entry of v and θ.
        same: whether all ranks ended bitwise equal.
        message: what was said where it refused.
    """

    cell: str
    method: str
    works: bool
    error: float = float("nan")
    same: bool = True
    message: str = ""


def attempt(name: str, method: str, rank: int = 0) -> Attempt:
    """Try a method in a cell; all ranks of the cell must call this."""
    cell = CELLS[name]
    losses = (models.outer, models.inner)
    if cell.mixed:
        losses = (models.in_bfloat16(models.outer), models.in_bfloat16(models.inner))
    net = cell.wrap(cell.model())
    pair = tuple(_seen(batch, rank, cell) for batch in _data(cell))
    try:
        end = steps(net, METHODS[method], pair[0], pair[1], cell.oracle, *losses)
    except UnsupportedError as error:
        return Attempt(name, method, False, message=str(error))
    aim = reference(cell.plain or cell.model, method)
    ranks = ranks_of([net])
    same = ranks is None or bitwise_equal(end, ranks)
    return Attempt(name, method, True, float((end - aim).abs().max()), same)


def steps(
    net: nn.Module,
    method: Method,
    inner_batch: Any,
    outer_batch: Any,
    oracle: OracleName,
    outer: Callable[..., Tensor] = models.outer,
    inner: Callable[..., Tensor] = models.inner,
) -> Tensor:
    """v and the whole θ as one vector after some steps, all on the same batches."""
    v = torch.zeros(models.SOURCES)
    problem = Problem(outer, inner, v, net)
    stepper = Stepper(
        problem, method, SGD([v], 0.1, momentum=0.9), SGD(problem.theta.leaves, 0.1, momentum=0.9), oracle
    )
    for _ in range(STEPS):
        stepper.step_on(
            Batches(inner=(inner_batch,) * method.inner_batches, outer=(outer_batch,) * method.outer_batches)
        )
    return torch.cat([v, *(whole(x).reshape(-1) for x in problem.theta.leaves)])


def bitwise_equal(vector: Tensor, ranks: Ranks) -> bool:
    """Whether a vector is the same on all ranks."""
    bits = vector.contiguous().view(torch.int32).tolist()
    return ranks.all_agree(ranks.largest(*bits) == bits)


@cache
def reference(model: Callable[[], nn.Module], method: str) -> Tensor:
    """Where one process comes in float32 on the whole batch."""
    cell = Cell("", model=model)
    inner_batch, outer_batch = _data(cell)
    exact: AbstractContextManager[Any] = sdpa_kernel(SDPBackend.MATH) if _attends(model) else nullcontext()
    with exact:
        return steps(model(), METHODS[method], inner_batch, outer_batch, "func")


def _attends(model: Callable[[], nn.Module]) -> bool:
    return model is models.transformer


def _data(cell: Cell) -> tuple[models.Batch, models.Batch]:
    shape = (models.TOKENS, models.WIDTH) if _attends(cell.model) else (models.WIDTH,)
    return models.samples(24, 1, shape), models.samples(8, 2, shape)


def _seen(batch: models.Batch, rank: int, cell: Cell) -> Any:
    own = models.share(batch, rank, cell.ranks)
    if cell.parts == 1:
        return own
    return MicroBatches([models.share(own, part, cell.parts) for part in range(cell.parts)])
