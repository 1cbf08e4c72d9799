"""BOLIB, a library of small bilevel problems (Zhou, Zemkoho, Tin), with optima that were checked anew.

The formulas are those of the library, translated by hand. Where its printed optimum is wrong, the record says so.
"""

from bome.tasks.bolib.boxes import BOXES, FREE, SIMPLE
from bome.tasks.bolib.curved import CURVED
from bome.tasks.bolib.intervals import INTERVALS
from bome.tasks.bolib.linear import LINEAR
from bome.tasks.bolib.networks import NETWORKS
from bome.tasks.bolib.nonlinear import NONLINEAR
from bome.tasks.bolib.polyhedra import POLYHEDRA
from bome.tasks.bolib.polynomials import POLYNOMIALS
from bome.tasks.bolib.quadratic import QUADRATIC
from bome.tasks.bolib.record import Record
from bome.tasks.bolib.tasks import PREFIX, name_of, problem_of, task_of

_GROUPS = (
    FREE, INTERVALS, BOXES, SIMPLE, POLYHEDRA, LINEAR, QUADRATIC, NONLINEAR, CURVED, POLYNOMIALS, NETWORKS
)  # fmt: skip

RECORDS: dict[str, Record] = {name_of(record): record for group in _GROUPS for record in group}
"""What is known of each problem, by the name of its task."""

__all__ = ["PREFIX", "RECORDS", "Record", "name_of", "problem_of", "task_of"]
