"""Several basins: 𝒦◇ on the sine problem, and runs that are held between two basins."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from bome.reports.figures import BLUE, RED
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.study import Claim, Section
from bome_studies.theory import figures as figures
from bome_studies.theory.evidence import KINDS, Evidence, Topic, exponents, slope_claim
from bome_studies.theory.figures import Line, Panel
from bome_studies.theory.fits import Array, minus, power, slopes, spread
from bome_studies.theory.instances import Sines
from bome_studies.theory.protocol import RIDGE

HELD = 0.01
"""A run is held between two basins if it changes the basin at more than this share of its steps."""

Flags = NDArray[np.bool_]


def basins(evidence: Evidence) -> Topic:
    """𝒦◇ with several basins."""
    outcome = evidence.outcomes["basins"]
    _, rates, counts = evidence.where("basins", "quarter")
    values = evidence.ends("basins", "quarter")
    fits = {kind: power(counts, y) for kind, y in values.items()}
    local = Sines().local_value(torch.from_numpy(outcome.basins).long()).numpy()
    ends = outcome.last["f"]
    held = outcome.jumps > HELD * counts[:, None]
    free = ~held[-1]
    off = np.abs(ends - local) / (1 + local)
    labels = [f"({min(row):.0f}, {max(row):.0f})" for row in outcome.basins[-1]]
    ordered = _ordered(local[-1][free], ends[-1][free])
    plan = f"K = {counts[-1]:.0f}"
    each = slopes(np.log(counts), np.log(values["min"]))
    claims = [
        slope_claim(
            "min_k 𝒦◇ = O(K^{-1/4}) with ξ = K^{-1/2}",
            "Theorem 2",
            "sine",
            minus(fits["min"]),
            1 / 4,
            f"{exponents(fits, '𝒦◇')}; min_k 𝒦◇ of {int((each > -1 / 4).sum())} of {len(each)} single starts is "
            f"flatter than the bound; for {held[-1].sum()} held between basins it is "
            f"{_largest(values['min'][-1][held[-1]])} with {plan}",
        ),
        Claim(
            "runs end at a local solution of the basin they end in; f is ordered as the basins are",
            "Theorem 2",
            "sine",
            f"|f − f_basin| / (1 + f_basin) of the {free.sum()} runs that settle is on average "
            f"{off[0][free].mean():.3f} with K = {counts[0]:.0f} and {off[-1][free].mean():.3f} (at most "
            f"{off[-1][free].max():.3f}) with {plan}, in {len(set(labels))} basins; "
            f"ordered: {'yes' if ordered else 'no'}",
            bool(off[-1][free].max() < 0.1) and ordered,
        ),
        _ridge_claim(evidence, held, rates),
    ]
    rows = [
        evidence.row("sine", "ξ = K^{-1/2}", f"exponent of {KINDS[kind]} 𝒦◇ in K", fit) for kind, fit in fits.items()
    ]
    rows.append(evidence.row("sine", plan, "|f − f_basin| / (1 + f_basin), settled runs", spread(off[-1][free])))
    rows.append(evidence.row("sine", plan, "share of runs held between basins", spread(held[-1].astype(float))))
    about = paragraph(__file__, "basins", moved=int((outcome.jumps[-1] > 0).sum()), runs=len(free), plan=plan)
    panel = _basins_panel(values, counts, outcome.basins[-1], free)
    drawings = (
        draw(
            "basins_rate",
            "𝒦◇ against K",
            "Filled: mean of the last 20 % of steps; open: minimum. Means over the starts that settle, by whether both "
            "coordinates end in equal basins. Dashed: the slope of the bound.",
            figures.powers,
            [panel],
        ),
        draw(
            "basins_value",
            "f by basin",
            f"f after {counts[-1]:.0f} steps against the least f in the basin. A point far below the line is a run "
            "held between two basins.",
            figures.by_basin,
            local[-1],
            ends[-1],
            labels,
        ),
    )
    return Topic(Section("Several basins", about, drawings), claims, rows)


def _basins_panel(values: Mapping[str, Array], counts: Array, ends: Array, free: Flags) -> Panel:
    """𝒦◇ against K, apart for starts that end in equal basins for both coordinates and for those that do not."""
    differ = ends[:, 0] != ends[:, 1]
    lines = []
    for label, mine, colour in ((r"$k_1\neq k_2$", differ & free, BLUE), ("$k_1=k_2$", ~differ & free, RED)):
        if mine.sum() > 1:
            for kind, mark in (("mean", "o"), ("min", "s")):
                y = values[kind][:, mine]
                lines.append(Line(f"{kind}, {label}", colour, y, power(counts, y), mark, filled=kind == "mean"))
    return Panel("outer steps $K$", r"$\mathcal{K}^\diamond$", counts, lines, (-0.25, r"bound $K^{-1/4}$"))


def _ridge_claim(evidence: Evidence, held: Flags, rates: Array) -> Claim:
    """Whether runs stay between two basins, and whether more inner steps help."""
    near = int(np.argmin(np.abs(np.log(rates / RIDGE))))
    short, long = evidence.sweeps["basins"], evidence.sweeps["ridge"]
    jumps = evidence.outcomes["ridge"].jumps[0]
    still = int((jumps > HELD * long.steps).sum())
    now, runs = int(held[near].sum()), held.shape[1]
    words = (
        f"with T = {short.inner_steps} and ξ = {rates[near]:.3g}, {now} of {runs} runs are held on the ridge between "
        f"two basins, changing from one to the other until the end; with T = {long.inner_steps} and {long.steps} "
        f"steps, {still}. Near a maximum of g the local PL inequality fails, and T inner steps do not leave it"
    )
    text = "points on the boundary of basins are not stable, and runs from random starts do not stay there"
    return Claim(text, "section on multimodal g", "sine", words, now == 0 and still == 0)


def _largest(values: Array) -> str:
    return f"{values.max():.2g}" if len(values) else "not defined"


def _ordered(local: Iterable[float], ends: Iterable[float]) -> bool:
    """Whether f at the end has the order of the best f of the basins, as far as these differ."""
    pairs = sorted(zip(local, ends, strict=True))
    return all(b[1] > a[1] for a, b in pairwise(pairs) if b[0] > a[0] * 1.05 + 1e-9)
