"""The matrix "runs wherever training runs": every cell, beside methods that need second-order products."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bome.methods import AIDCG, ITD
from bome.reports.figures import STYLE
from bome_studies.learning.figures import drawing
from bome_studies.matrix.cells import BFLOAT16, CELLS, EXACT, METHODS, STEPS, Outcome
from bome_studies.matrix.launch import launch
from bome_studies.matrix.measures import T
from bome_studies.page import command
from bome_studies.study import Claim, Findings, Preset, Report, Row, Section

ABOUT = (
    "A step of a bilevel method in every way a model is trained: compiled, with fused attention, in bfloat16, with "
    "gradient accumulation, activation checkpointing or adapters, replicated by DDP and sharded by FSDP2, on this "
    "machine's processors with real processes. In each cell the step must be that of one process in float32."
)
NOTES = (
    f"A number is the largest difference from one process in any entry of v and θ after {STEPS} steps, the same "
    f"method, whole batch, float32. It must be at most {EXACT:g}, and {BFLOAT16:g} where products are in bfloat16; "
    "ranks must end bitwise equal.",
    "Methods that need second-order products refuse before the first step where they would fail or be wrong, and say "
    "why. Those of first order need none.",
    "Memory is resident memory over that of plain training with the same optimiser, in copies of the trainable "
    "parameters of a rank, the least of six steps; up to 2.1 counts as two. What is found above two are blocks of "
    "float64 for the inner products and, with FSDP2, layers that it has gathered and not let go of yet.",
    "The settings suit a comparison in float32. DARTS has R = 0.5: with R = 0.01 its finite differences amplify "
    "rounding to 6e-6. The inner loss has a penalty on the logits: without it aid-cg, which wants a convex inner "
    "problem, amplifies rounding to 5e-5, and bfloat16 leads it elsewhere.",
)
GREEN, RED, YELLOW = "#cde9d3", "#f4c7c3", "#fbe8b8"
PARTS: Mapping[Preset, tuple[tuple[str, int], ...]] = {
    "smoke": (("cells", 1),),
    "quick": (("cells", 1), ("cells", 2), ("cells", 4), ("memory", 1), ("memory", 2)),
    "paper": (("cells", 1), ("cells", 2), ("cells", 4), ("memory", 1), ("memory", 2)),
}
"""What is launched: what is measured, and by how many ranks."""


class Matrix:
    """The matrix; its processes are started one group after the other."""

    name = "bench-matrix"

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Launch what is not yet in `folder`, and tell."""
        parts, found = PARTS[preset], {}
        for done, (what, ranks) in enumerate(parts):
            report(f"{what}, {ranks} ranks", done, len(parts))
            out = folder / "parts" / f"{what}-{ranks}.json"
            found[what, ranks] = json.loads(out.read_text()) if out.exists() else launch(what, ranks, out)
        report("done", len(parts), len(parts))
        return findings(found, preset)


MATRIX = Matrix()


Found = Mapping[tuple[str, int], Any]


def findings(found: Found, preset: Preset) -> Findings:
    """Everything that was found."""
    outcomes = [Outcome(**o) for (what, _), told in found.items() if what == "cells" for o in told["outcomes"]]
    run = command(Matrix.name, preset)
    map_ = drawing(
        "matrix",
        "Which method runs where",
        "Green: the step of one process, with the largest difference. Yellow: refused before the first step.",
        figure(outcomes),
    )
    return Findings(
        title="Runs wherever training runs",
        about=ABOUT,
        sections=(Section("The matrix", "", (map_,)),),
        claims=(*_cell_claims(outcomes), *_measured_claims(found)),
        rows=tuple(Row(o.cell, o.method, "", "difference", o.error, None, 1, preset, run) for o in outcomes if o.works),
        notes=(*NOTES, *_refusals(outcomes)),
    )


def agrees(outcome: Outcome) -> bool:
    """Whether a method made the step of one process."""
    return outcome.works and outcome.same and outcome.error <= CELLS[outcome.cell].tolerance


def _first_order(method: str) -> bool:
    return not isinstance(METHODS[method], (ITD, AIDCG))


def _cell_claims(outcomes: Sequence[Outcome]) -> Iterator[Claim]:
    for name, cell in CELLS.items():
        own = [o for o in outcomes if o.cell == name]
        if not own:
            continue
        told = ", ".join(f"{o.method} {o.error:.0e}" if o.works else f"{o.method} refuses" for o in own)
        holds = all(agrees(o) for o in own if o.works or _first_order(o.method))
        ranks = f"{cell.ranks} ranks" if cell.ranks > 1 else "one process"
        text = f"{cell.title}: the step of one process in float32, or a refusal before it"
        yield Claim(text, "the matrix", ranks, told, holds)


def _measured_claims(found: Found) -> Iterator[Claim]:
    one, two = (found.get(("cells", ranks), {}).get("measures", {}) for ranks in (1, 2))
    if one:
        p = one["precision"]
        yield Claim(
            "bfloat16 changes λ by at most 1e-2 (1 + λ) and the length of the direction by at most 1 %",
            "precision",
            f"a transformer with weights of sources, T = {T}",
            f"λ = {p['lam']:.2f} by {p['lam_change']:.1e} (1 + λ), the length by {p['length_change']:.1e}",
            max(p["lam_change"], p["length_change"]) <= 1e-2,
        )
    if two:
        m = two["messages"]
        yield Claim(
            "A BOME step sends what its T + 2 evaluations send, ∇_v, and one sum of at most five numbers",
            "messages",
            f"FSDP2, 2 ranks, T = {T}, v of {m['v']} entries",
            f"{sum(m['step'].values())} gathers and scatters, {sum(m['evaluations'].values())} by evaluations alone; "
            f"sums of {', '.join(map(str, m['step_sums']))} entries, the losses going with ∇_v",
            m["step"] == m["evaluations"] and m["step_sums"][-1] <= 5 and len(m["step_sums"]) == 4,
        )
        yield Claim(
            "Gradients averaged after λ do not give the step of one process (the comparison can fail)",
            "negative control",
            "2 ranks",
            f"difference {two['late_average']:.1e}",
            two["late_average"] > 100 * EXACT,
        )
        r = two["rows"]
        yield Claim(
            "A weight per sample stays on the rank of its sample and equals that of one process",
            "rows",
            "DDP, 2 ranks",
            f"difference {r['v']:.0e} in v, {r['theta']:.0e} in θ",
            r["same"] and max(r["v"], r["theta"]) <= EXACT,
        )
    for ranks in (1, 2):
        told = found.get(("memory", ranks))
        if told:
            yield Claim(
                "At most two more copies of the trainable parameters than plain training, whatever T is",
                "memory",
                "one process" if ranks == 1 else "FSDP2, each of 2 ranks",
                f"T = 1: {told['T = 1']:.2f}, T = 8: {told['T = 8']:.2f} copies of {told['copy']:.0f} MB",
                max(told["T = 1"], told["T = 8"]) <= 2.1 and told["T = 8"] - told["T = 1"] <= 0.1,
            )


def _refusals(outcomes: Sequence[Outcome]) -> list[str]:
    """Each message once, with the places where it is given."""
    places: dict[str, list[str]] = {}
    for o in outcomes:
        if not o.works:
            places.setdefault(o.message, []).append(o.cell)
    return [f"Refused in {', '.join(cells)}: “{message}”" for message, cells in places.items()]


def figure(outcomes: Sequence[Outcome]) -> Figure:
    """A square for each method in each cell."""
    cells = [name for name in CELLS if any(o.cell == name for o in outcomes)]
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(9.2, 0.42 * len(cells) + 0.9), layout="constrained")
        axes = drawn.subplots()
        for o in outcomes:
            x, y = list(METHODS).index(o.method), cells.index(o.cell)
            colour = GREEN if agrees(o) else YELLOW if not o.works else RED
            axes.add_patch(mpl.patches.Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, linewidth=0))
            axes.text(x, y, f"{o.error:.0e}" if o.works else "refuses", ha="center", va="center", fontsize=9)
        axes.set_xlim(-0.5, len(METHODS) - 0.5)
        axes.set_ylim(len(cells) - 0.5, -0.5)
        axes.set_xticks(range(len(METHODS)), list(METHODS))
        axes.set_yticks(range(len(cells)), [CELLS[name].title for name in cells])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for side in axes.spines.values():
            side.set_visible(False)
    return drawn
