"""Instances of the theory study, and their runs one by one."""

import torch
from torch import Tensor

from bome_studies.theory.instances import Bed, Sines, Start, residual_instances, residual_start, sine_starts


def beds() -> list[tuple[Bed, Start]]:
    bed = residual_instances(3)
    return [(bed, residual_start(bed, torch.full((6,), 2.0, dtype=torch.float64))), (Sines(), sine_starts(6))]


def each(bed: Bed, start: Start) -> list[tuple[Tensor, Tensor, tuple[Tensor, ...] | None]]:
    """v, θ and data of each run."""
    data = bed.data()
    return [
        (v, theta, None if data is None else tuple(x[i] for x in data))
        for i, (v, theta) in enumerate(zip(*start, strict=True))
    ]
