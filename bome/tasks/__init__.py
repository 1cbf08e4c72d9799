"""Concrete problems with their usual settings and, where known, their solutions."""

from collections.abc import Callable

from bome.tasks.base import Optimum, Settings, Task
from bome.tasks.coreset import coreset
from bome.tasks.lls import lls
from bome.tasks.minimax import minimax
from bome.tasks.quadratic import QuadraticInstance, quadratic, quadratic_instance
from bome.tasks.sine import sine

TASKS: dict[str, Callable[..., Task]] = {
    "coreset": coreset,
    "minimax": minimax,
    "lls": lls,
    "quadratic": quadratic,
    "sine": sine,
}
"""Every task by its name on the command line."""

__all__ = [
    "TASKS",
    "Optimum",
    "QuadraticInstance",
    "Settings",
    "Task",
    "coreset",
    "lls",
    "minimax",
    "quadratic",
    "quadratic_instance",
    "sine",
]
