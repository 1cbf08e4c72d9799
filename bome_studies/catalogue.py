"""Every experiment of the paper; not in the package itself, so that ranks of the matrix need not load them all."""

from collections.abc import Callable
from pathlib import Path

from bome_studies.continual.study import CONTINUAL
from bome_studies.learning.hyperclean import HYPERCLEAN
from bome_studies.learning.newsgroups import REGULARIZATION
from bome_studies.study import Experiment, Findings, Preset
from bome_studies.theory.study import THEORY
from bome_studies.toys.study import TOYS

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
