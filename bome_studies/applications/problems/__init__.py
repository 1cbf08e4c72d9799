"""Eight applications, each as somebody would write it who has read the README and nothing else."""

from collections.abc import Callable

from bome_studies.applications.problems.anil import anil
from bome_studies.applications.problems.application import Application
from bome_studies.applications.problems.distillation import distillation
from bome_studies.applications.problems.layer_decay import layer_decay
from bome_studies.applications.problems.learned_loss import learned_loss
from bome_studies.applications.problems.meta_weights import meta_weights
from bome_studies.applications.problems.operations import operations
from bome_studies.applications.problems.penalties import penalties
from bome_studies.applications.problems.pictures import Pictures
from bome_studies.applications.problems.saddles import adversary, bilinear, saddle

APPLICATIONS: dict[str, Callable[[Pictures, int], Application]] = {
    "meta-weights": meta_weights,
    "layer-decay": layer_decay,
    "anil": anil,
    "distillation": distillation,
    "operations": operations,
    "saddle": saddle,
    "bilinear": bilinear,
    "adversary": adversary,
    "learned-loss": learned_loss,
    "penalties": penalties,
}
"""Each by its name; the three in the middle are the saddle games."""

__all__ = ["APPLICATIONS", "Application", "Pictures"]
