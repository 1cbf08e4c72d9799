"""What the engine must know of sharded and replicated modules, and of the ranks that train one model together.

A loss is evaluated on every rank with its own batch; the loss that is minimised is the mean over the ranks. DDP and
FSDP2 average the gradients of their own parameters. Everything else is averaged here, before any multiplier is formed
of it. A tensor is called sharded if each rank holds a part of it: the parameters of FSDP2 (`DTensor`), and the rows of
a variable with a row per sample, which are local to the rank that sees the sample.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bome.errors import UnsupportedError


def is_sharded(tensor: Tensor) -> bool:
    """Whether the tensor is a part of a larger one (a `DTensor`)."""
    if type(tensor) is Tensor or type(tensor) is nn.Parameter:
        return False
    if torch.compiler.is_compiling() or not dist.is_available() or not dist.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of a sharded tensor that this rank holds, sharing its memory; any other tensor as it is."""
    return cast(Any, tensor.detach()).to_local() if is_sharded(tensor) else tensor


def sharded_like(part: Tensor, pattern: Tensor) -> Tensor:
    """A tensor of which this rank holds `part`, laid out as `pattern` is; the part itself if that is not sharded."""
    if not is_sharded(pattern):
        return part
    from torch.distributed.tensor import DTensor

    laid = cast(Any, pattern)
    return DTensor.from_local(
        part, laid.device_mesh, laid.placements, run_check=False, shape=laid.shape, stride=laid.stride()
    )


def shard_of(whole: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor laid out as `pattern` is, without any message, since every rank has the whole."""
    if not is_sharded(pattern) or is_sharded(whole):
        return whole
    from torch.distributed.tensor import distribute_tensor

    laid = cast(Any, pattern)
    return distribute_tensor(whole.to(laid.device), laid.device_mesh, laid.placements, src_data_rank=None)


def whole(tensor: Tensor) -> Tensor:
    """All of a sharded tensor, on every rank: all ranks must ask for it. Any other tensor as it is."""
    return cast(Any, tensor.detach()).full_tensor() if is_sharded(tensor) else tensor.detach()


def layout(tensor: Tensor) -> Any:
    """What two tensors have in common whose sums go over the same ranks; None if the tensor is not sharded."""
    if not is_sharded(tensor):
        return None
    laid = cast(Any, tensor)
    return laid.device_mesh, tuple(place.is_replicate() for place in laid.placements)


def summed(parts: Tensor, over: Any) -> Tensor:
    """The sum over the ranks of a `layout`, by one message."""
    if over is None:
        return parts
    from torch.distributed.tensor import DTensor, Partial, Replicate

    mesh, replicated = over
    placements = [Replicate() if same else Partial() for same in replicated]
    return DTensor.from_local(parts, mesh, placements, run_check=False).full_tensor()


@dataclass(frozen=True)
class Ranks:
    """The processes that train one model together, each with its own batches.

    Attributes:
        group: their process group.
    """

    group: dist.ProcessGroup

    @property
    def size(self) -> int:
        """How many there are."""
        return dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        """The number of this one."""
        return dist.get_rank(self.group)

    def mean(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The mean of each tensor over the ranks, all by one message, at least in float32; bitwise equal everywhere."""
        if not tensors:
            return ()
        dtype = torch.float32
        for x in tensors:
            dtype = torch.promote_types(dtype, x.dtype)
        flat = torch.cat([x.detach().reshape(-1).to(dtype) for x in tensors])
        dist.all_reduce(flat, group=self.group)
        parts = torch.split(flat / self.size, [x.numel() for x in tensors])
        return tuple(part.view(x.shape).to(x.dtype) for part, x in zip(parts, tensors, strict=True))

    def largest(self, *numbers: int) -> list[int]:
        """The largest of each number over the ranks."""
        maxima = torch.tensor(numbers, dtype=torch.int64, device=self._device)
        dist.all_reduce(maxima, op=dist.ReduceOp.MAX, group=self.group)
        return [int(x) for x in maxima]

    def gathered(self, *numbers: int) -> list[list[int]]:
        """The numbers of every rank, as many on each, in the order of the ranks."""
        own = torch.tensor(numbers, dtype=torch.int64, device=self._device)
        every = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(every, own, group=self.group)
        return [each.tolist() for each in every]

    def all_agree(self, holds: bool) -> bool:
        """Whether something holds on every rank."""
        return not self.largest(int(not holds))[0]

    def rows(self, gradient: Tensor) -> Tensor:
        """The gradient of the mean loss in the rows of this rank, as a part of a larger tensor.

        Rows are never averaged: those of other ranks are other variables. The whole has no meaningful shape; only sums
        over it are ever taken.
        """
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.tensor import DTensor, Shard

        mesh = DeviceMesh.from_group(self.group, gradient.device.type)
        return DTensor.from_local(gradient / self.size, mesh, [Shard(0)], run_check=False)

    @property
    def _device(self) -> torch.device:
        return torch.device("cuda" if dist.get_backend(self.group) == "nccl" else "cpu")


def replicas(module: nn.Module) -> list[DistributedDataParallel]:
    """The DDP wrappers in a module."""
    return [part for part in module.modules() if isinstance(part, DistributedDataParallel)]


def synchronises(module: nn.Module) -> bool:
    """Whether gradients of the module are only right after `backward()`: DDP wrappers and sharded parameters."""
    return bool(replicas(module)) or any(is_sharded(p) for p in module.parameters())


def averages_itself(module: nn.Module | None, leaves: Sequence[Tensor]) -> tuple[bool, ...]:
    """For each leaf, whether DDP or FSDP2 averages its gradient."""
    wrapped = {id(p) for part in replicas(module) for p in part.parameters()} if module is not None else set()
    return tuple(id(leaf) in wrapped or is_sharded(leaf) for leaf in leaves)


def ranks_of(modules: Sequence[nn.Module]) -> Ranks | None:
    """The ranks over which the modules average their gradients; None where they do not."""
    groups = [part.process_group for module in modules for part in replicas(module)]
    for module in modules:
        for mesh in {cast(Any, p).device_mesh for p in module.parameters() if is_sharded(p)}:
            if mesh.ndim > 1 and mesh.size() != dist.get_world_size():
                raise UnsupportedError("a mesh of several dimensions must hold all ranks: shard over the whole world")
            groups.append(mesh.get_group() if mesh.ndim == 1 else cast(dist.ProcessGroup, dist.group.WORLD))
    if not groups:
        return None
    if len({tuple(dist.get_process_group_ranks(group)) for group in groups}) > 1:
        raise UnsupportedError("the modules of v and theta average over different ranks: use one process group")
    return Ranks(groups[0])


@contextmanager
def without_averaging(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Let DDP add up gradients without a message, for all micro-batches but the last; FSDP2 keeps its shards."""
    with ExitStack() as stack:
        for module in modules:
            for part in replicas(module):
                stack.enter_context(part.no_sync())
        yield


def reshard(modules: Sequence[nn.Module]) -> None:
    """Make FSDP2 modules forget their gathered parameters, which are stale once a shard has been written to."""
    if not dist.is_available() or not dist.is_initialized():
        return
    from torch.distributed.fsdp import FSDPModule

    for module in modules:
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.reshard()
