"""What the engine must know of sharded and replicated modules."""

import torch
from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether the tensor is a shard of a larger one (FSDP2's DTensor)."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def synchronises(module: nn.Module) -> bool:
    """Whether gradients of the module are only right after `backward()`: DDP wrappers and sharded parameters."""
    replicated = any(isinstance(part, nn.parallel.DistributedDataParallel) for part in module.modules())
    return replicated or any(is_sharded(p) for p in module.parameters())
