"""BOLIB, a library of small bilevel problems (Zhou, Zemkoho, Tin), with optima that were checked anew.

The formulas are those of the library, translated by hand. Where its printed optimum is wrong, the record says so.
"""

from bome.tasks.bolib.boxes import BOXES, FREE, SIMPLE
from bome.tasks.bolib.linear import LINEAR
from bome.tasks.bolib.nonlinear import NONLINEAR, QUADRATIC
from bome.tasks.bolib.polyhedra import POLYHEDRA
from bome.tasks.bolib.record import Record
from bome.tasks.bolib.tasks import PREFIX, name_of, problem_of, task_of

RECORDS: dict[str, Record] = {
    name_of(record): record for record in (*FREE, *BOXES, *SIMPLE, *POLYHEDRA, *LINEAR, *QUADRATIC, *NONLINEAR)
}
"""What is known of each problem, by the name of its task."""

__all__ = ["PREFIX", "RECORDS", "Record", "name_of", "problem_of", "task_of"]
