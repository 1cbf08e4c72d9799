"""What the study of scale measures: sizes of models, values of T, numbers of samples and of ranks."""

from collections.abc import Mapping
from dataclasses import dataclass

from bome_studies.study import Preset


@dataclass(frozen=True)
class ScaleProtocol:
    """What is measured.

    Attributes:
        parameters: sizes of θ, with T = 5.
        inner_steps: values of T, with `middle` parameters.
        samples: lengths of the table of weights.
        ranks: numbers of processes, with DDP.
        middle: parameters where they do not vary.
        repeats: rounds of each comparison.
    """

    parameters: tuple[int, ...]
    inner_steps: tuple[int, ...]
    samples: tuple[int, ...]
    ranks: tuple[int, ...]
    middle: int = 100_000
    repeats: int = 5


PROTOCOLS: Mapping[Preset, ScaleProtocol] = {
    "smoke": ScaleProtocol((1_000, 10_000), (1, 2), (1_000, 100_000), (1,), middle=1_000, repeats=1),
    "quick": ScaleProtocol(
        (10**4, 10**5, 10**6, 10**7, 10**8), (1, 2, 5, 10, 20), (10**4, 10**5, 10**6, 10**7), (1, 2, 4)
    ),
    "paper": ScaleProtocol(
        (10**4, 10**5, 10**6, 10**7, 10**8),
        (1, 2, 5, 10, 20, 50),
        (10**4, 10**5, 10**6, 10**7),
        (1, 2, 4),
        repeats=15,
    ),
}
