"""What a value tells besides its number: whether all on the way to it was finite, and what its graph holds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.ranks import local


def sound(value: Tensor, path: Sequence[Tensor], theta: Leaves) -> Tensor:
    """The value at the end of a look-ahead; NaN if a value on the path or an entry of θ^(T) is NaN or infinite.

    The largest and the smallest entry of a tensor tell that, and take a third of the time of a sum.
    """
    ends = [torch.aminmax(part) for part in map(local, theta) if part.numel()]  # a shard may be empty
    total = torch.stack([x.double() for x in (*path, *(end for both in ends for end in both))]).sum()
    return value + (0 * total).to(value.dtype)


def holds_reentrant(value: Tensor) -> bool:
    """Whether the graph of a value holds reentrant activation checkpointing."""
    seen, left = set(), [value.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            return True
        seen.add(node)
        left += [following for following, _ in node.next_functions]
    return False
