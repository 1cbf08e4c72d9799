"""Every experiment of the paper; not in the package itself, so that ranks of the matrix need not load them all."""

from collections.abc import Callable
from pathlib import Path

from bome.experiments.base import Experiment, Findings, Preset
from bome.experiments.continual import CONTINUAL
from bome.experiments.hyperclean import HYPERCLEAN
from bome.experiments.regularization import REGULARIZATION
from bome.experiments.theory import THEORY
from bome.experiments.toys import TOYS

EXPERIMENTS: dict[str, Experiment] = {
    "toys": TOYS,
    "theory": THEORY,
    "hyperclean": HYPERCLEAN,
    "regularization": REGULARIZATION,
    "continual": CONTINUAL,
}
"""Every experiment by its name on the command line."""

SO_FAR: dict[str, Callable[[Preset, Path], Findings]] = {"continual": CONTINUAL.so_far}
"""Experiments that take hours: what the finished runs in a folder tell, before all of them have ended."""
