"""Concrete problems with their usual settings, and all that the author of another task needs."""

from collections.abc import Callable

from bome._checks import choose
from bome.tasks import bolib, hyperclean, regularization
from bome.tasks.coreset import coreset
from bome.tasks.hyperclean import hyperclean_digits, hyperclean_fashion, hyperclean_mnist
from bome.tasks.lls import lls
from bome.tasks.minimax import minimax
from bome.tasks.quadratic import QuadraticInstance, quadratic, quadratic_instance
from bome.tasks.regularization import regularization_20news, regularization_digits
from bome.tasks.sine import sine
from bome.tasks.task import Optimum, Settings, Stack, Task, norm

TASKS: dict[str, Callable[..., Task]] = {
    "coreset": coreset,
    "minimax": minimax,
    "lls": lls,
    "quadratic": quadratic,
    "sine": sine,
    "hyperclean-mnist": hyperclean_mnist,
    "hyperclean-fashion": hyperclean_fashion,
    "hyperclean-digits": hyperclean_digits,
    "regularization-20news": regularization_20news,
    "regularization-digits": regularization_digits,
    **{name: bolib.task_of(record) for name, record in bolib.RECORDS.items()},
}
"""Every task by its name on the command line."""

ON_DATA: dict[str, Settings] = {
    "hyperclean-mnist": hyperclean.VARIANTS["code"].settings(1),
    "hyperclean-fashion": hyperclean.VARIANTS["code"].settings(1),
    "regularization-20news": regularization.SETTINGS,
}
"""Tasks that need a data set, which building them may download; with the defaults of their runs."""

SUGGESTED = {name: (hyperclean if name.startswith("hyperclean") else regularization).SUGGESTED for name in ON_DATA}
"""What these tasks set for some methods."""

__all__ = [
    "ON_DATA",
    "SUGGESTED",
    "TASKS",
    "Optimum",
    "QuadraticInstance",
    "Settings",
    "Stack",
    "Task",
    "bolib",
    "choose",
    "coreset",
    "hyperclean_digits",
    "hyperclean_fashion",
    "hyperclean_mnist",
    "lls",
    "minimax",
    "norm",
    "quadratic",
    "quadratic_instance",
    "regularization_20news",
    "regularization_digits",
    "sine",
]
