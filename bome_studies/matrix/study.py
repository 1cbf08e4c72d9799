"""The matrix "runs wherever training runs": every cell, beside methods that need second-order products."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bome._typing import Report
from bome_studies.figures import draw
from bome_studies.matrix.cells import BFLOAT16, CELLS, EXACT, METHODS, STEPS, Attempt
from bome_studies.matrix.claims import Numbers, cell_claims, measured_claims
from bome_studies.matrix.figures import map_of
from bome_studies.matrix.launch import launch
from bome_studies.matrix.measures import LAYERS, WIDTH, T
from bome_studies.notes import paragraph, points
from bome_studies.page import BENCH, command
from bome_studies.parts import results_of
from bome_studies.study import Findings, Preset, Row, Section


@dataclass(frozen=True)
class Group:
    """Processes that are launched together.

    Attributes:
        what: "cells" or "memory".
        ranks: how many processes.
        settings: what else decides the numbers.
    """

    what: str
    ranks: int
    settings: tuple[object, ...] = (STEPS, T, LAYERS, WIDTH, *CELLS, *METHODS)

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.what}-{self.ranks}"


ALL = (Group("cells", 1), Group("cells", 2), Group("cells", 4), Group("memory", 1), Group("memory", 2))
GROUPS: Mapping[Preset, tuple[Group, ...]] = {"smoke": ALL[:1], "quick": ALL, "paper": ALL}
"""What is launched."""


class Matrix:
    """The matrix; its processes are started one group after the other."""

    name = f"{BENCH}matrix"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Launch the groups that are not yet in `folder`."""
        groups = GROUPS[preset]
        numbers = results_of(groups, start, folder, report)
        return findings({(group.what, group.ranks): numbers[group.name] for group in groups}, preset)


MATRIX = Matrix()


def start(group: Group) -> Any:
    """What the processes of a group measure."""
    with tempfile.TemporaryDirectory() as folder:
        return launch(group.what, group.ranks, Path(folder) / "out.json")


def findings(numbers: Numbers, preset: Preset) -> Findings:
    """The page of what was measured."""
    attempts = [Attempt(**x) for (what, _), of in numbers.items() if what == "cells" for x in of["attempts"]]
    made_by = command(MATRIX.name, preset)
    matrix = draw(
        "matrix",
        "Which method runs where",
        "Green: the step of one process, with the largest difference. Yellow: refused before the first step.",
        map_of,
        attempts,
    )
    limits = {"steps": STEPS, "exact": f"{EXACT:g}", "bfloat16": f"{BFLOAT16:g}"}
    return Findings(
        title="Runs wherever training runs",
        about=paragraph(__file__, "about"),
        sections=(Section("The matrix", "", (matrix,)),),
        claims=(*cell_claims(attempts), *measured_claims(numbers)),
        rows=tuple(
            Row(x.cell, x.method, "", "difference", x.error, None, 1, preset, made_by) for x in attempts if x.works
        ),
        notes=(*points(__file__, "notes", **limits), *_refusals(attempts)),
    )


def _refusals(attempts: Sequence[Attempt]) -> list[str]:
    """Each message once, with the places where it is given."""
    places: dict[str, list[str]] = {}
    for o in attempts:
        if not o.works:
            places.setdefault(o.message, []).append(o.cell)
    return [f"Refused in {', '.join(cells)}: “{message}”" for message, cells in places.items()]
