"""The aims of the matrix: the step of one process in every cell, few messages, little memory."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bome.methods import AIDCG, ITD
from bome_studies.matrix.cells import CELLS, EXACT, METHODS, Attempt
from bome_studies.matrix.measures import T
from bome_studies.study import Claim

Numbers = Mapping[tuple[str, int], Any]
"""What the worker of the matrix finds, by what it does and the number of ranks."""


def agrees(attempt: Attempt) -> bool:
    """Whether a method made the step of one process."""
    return attempt.works and attempt.same and attempt.error <= CELLS[attempt.cell].tolerance


def _first_order(method: str) -> bool:
    return not isinstance(METHODS[method], (ITD, AIDCG))


def cell_claims(attempts: Sequence[Attempt]) -> Iterator[Claim]:
    """Whether every method makes the step of one process, or refuses, in each cell."""
    for name, cell in CELLS.items():
        own = [o for o in attempts if o.cell == name]
        if not own:
            continue
        steps = ", ".join(f"{o.method} {o.error:.0e}" if o.works else f"{o.method} refuses" for o in own)
        holds = all(agrees(o) for o in own if o.works or _first_order(o.method))
        ranks = f"{cell.ranks} ranks" if cell.ranks > 1 else "one process"
        text = f"{cell.title}: the step of one process in float32, or a refusal before it"
        yield Claim(text, "the matrix", ranks, steps, holds)


def measured_claims(numbers: Numbers) -> Iterator[Claim]:
    """What was measured beside the cells: precision, messages, weights of rows, memory."""
    one, two = (numbers.get(("cells", ranks), {}).get("measures", {}) for ranks in (1, 2))
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
        copies = numbers.get(("memory", ranks))
        if copies:
            yield Claim(
                "At most two more copies of the trainable parameters than plain training, whatever T is",
                "memory",
                "one process" if ranks == 1 else "FSDP2, each of 2 ranks",
                f"T = 1: {copies['T = 1']:.2f}, T = 8: {copies['T = 8']:.2f} copies of {copies['copy']:.0f} MB",
                max(copies["T = 1"], copies["T = 8"]) <= 2.1 and copies["T = 8"] - copies["T = 1"] <= 0.1,
            )
