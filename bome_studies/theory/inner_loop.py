"""The inner loop: what T does to 𝒦, whether T must grow, and how q falls."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from bome.reports.figures import COLOURS
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.study import Claim, Section
from bome_studies.theory import figures as figures
from bome_studies.theory.evidence import EXACT, FAMILIES, Evidence, Topic, by_family, lines_of, slope_claim, split
from bome_studies.theory.figures import MARKS, Line, Panel
from bome_studies.theory.fits import Array, Fit, decay, decay_rates, minus, power, spread
from bome_studies.theory.instances import residual_start
from bome_studies.theory.protocol import ALPHA, SHORT_ALPHA
from bome_studies.theory.stretches import Spec, looked_ahead
from bome_studies.theory.trials import inner_rate


def inner_steps(evidence: Evidence) -> Topic:
    """e^{-bT}, and whether T must grow like log K."""
    names = evidence.named("T-")
    ts = np.array([float(evidence.sweeps[name].inner_steps) for name in names])
    at, (rate,), _ = evidence.where(names[0], "fixed")
    values = {
        what: np.stack([evidence.outcomes[name].average[what][at[0]] for name in names]) for what in ("kkt", "distance")
    }
    b = {family: inner_rate(SHORT_ALPHA, kappa) / 2 for family, kappa in evidence.pl.items()}
    fits = {what: by_family(table, lambda y: decay(ts, y)) for what, table in values.items()}
    panels = [
        (r"$\|v-v^*\|$", ts, lines_of(values["distance"], fits["distance"]), b["quadratic"], "$e^{-bT}$, quadratic"),
        (r"$\mathcal{K}$", ts, lines_of(values["kkt"], fits["kkt"]), b["quadratic"], "bound $e^{-bT}$, quadratic"),
    ]
    claims = []
    for family in FAMILIES:
        words = (
            f"rate {fits['kkt'][family]} of 𝒦 for each inner step, {fits['distance'][family]} of ‖v − v*‖, as far as "
            f"they are above the floor of ξ; b = {b[family]:.3f}"
        )
        text = "T enters 𝒦 through a term O(e^{-bT})"
        claims.append(slope_claim(text, "Theorem 1", family, fits["kkt"][family], b[family], words))
    growth, more = _growth(evidence, names, ts, b["quadratic"])
    variant = f"α = {SHORT_ALPHA}, ξ = {rate:g}"
    rows = [
        evidence.row(family, variant, f"rate of {label} in T", fits[what][family])
        for what, label in (("kkt", "𝒦"), ("distance", "‖v − v*‖"))
        for family in FAMILIES
    ]
    about = paragraph(__file__, "inner steps")
    drawings = (
        draw(
            "inner_steps",
            "Errors against T",
            f"α = {SHORT_ALPHA}, ξ = {rate:g}: exponential decay down to the floor of ξ. Dashed: only the slope has a "
            "meaning.",
            figures.inner_steps,
            panels,
        ),
        draw(
            "fixed_and_growing_inner_steps",
            "Must T grow?",
            "ξ = K^{-1/2}, quadratic instances. Left: the least 𝒦 of a run: level in K for T = 1, 2, 4. Right: "
            "the mean of the last 20 %. T ≥ log K / (4b) is such that e^{-bT} ≤ K^{-1/4}.",
            figures.powers,
            growth,
        ),
    )
    return Topic(Section("Inner steps", about, drawings), [*claims, *more], rows)


def _growth(evidence: Evidence, names: Sequence[str], ts: Array, b: float) -> tuple[list[Panel], list[Claim]]:
    """𝒦 against K for fixed T and for T ∝ log K (the next T that was run): the minimum, and the mean at the end."""
    counts = evidence.where(names[0], "quarter")[2]
    chosen = [int(np.argmax(ts >= min(want, ts[-1]))) for want in np.log(counts) / (4 * b)]
    shown = [i for i, t in enumerate(ts) if t in (1, 2, 4) or i == len(ts) - 1]
    panels, flat, grown = [], {}, {}
    for kind, label in (("min", r"least $\mathcal{K}$ of the run"), ("mean", r"$\mathcal{K}$, mean of the last 20 %")):
        table = np.stack([split(evidence.ends(name, "quarter")[kind])["quadratic"] for name in names])
        rule = np.stack([table[t, i] for i, t in enumerate(chosen)])
        flat[kind] = {f"{ts[i]:.0f}": power(counts, table[i]) for i in shown}
        grown[kind] = power(counts, rule)
        lines = [
            Line(f"$T={ts[i]:.0f}$", COLOURS[n + 1], table[i], fit, MARKS[n + 1])
            for n, (i, fit) in enumerate(zip(shown, flat[kind].values(), strict=True))
        ]
        lines.append(Line(r"$T\geq\log K/(4b)$", COLOURS[0], rule, grown[kind]))
        panels.append(Panel("outer steps $K$", label, counts, lines, (-0.25, r"bound $K^{-1/4}$")))
    where = "Theorem 1 and its remark"
    least, mean = (_by_inner_steps(flat[kind]) for kind in ("min", "mean"))
    fixed = f"exponents in K of min_k 𝒦: {least}; of the mean of the last 20 %: {mean}"
    rule_words = (
        f"exponents in K: {grown['min']} of min_k 𝒦, {grown['mean']} of the mean of the last 20 %, with T = "
        f"{', '.join(f'{ts[t]:.0f}' for t in chosen)} for K = {', '.join(f'{k:.0f}' for k in counts)}; "
        "this grid of T is coarse, and its jumps account for much of the slope of the minimum"
    )
    verdicts = [slope_claim("", "", "", minus(fit), 1 / 4).holds for fit in flat["min"].values()]
    claims = [
        Claim(
            "T must grow with K: with fixed T, min_k 𝒦 does not keep falling like K^{-1/4}",
            where,
            "quadratic",
            fixed,
            False if True in verdicts else None if None in verdicts else True,
        ),
        slope_claim(
            "growth of T like log K is enough for K^{-1/4}", where, "quadratic", minus(grown["min"]), 1 / 4, rule_words
        ),
    ]
    return panels, claims


def _by_inner_steps(fits: Mapping[str, Fit]) -> str:
    return ", ".join(f"{fit} with T = {t}" for t, fit in fits.items())


def inner_decay(evidence: Evidence) -> Topic:
    """q(v, θ^(t)) against its bound."""
    bed = evidence.instances
    start = residual_start(bed, torch.ones(len(bed.w), dtype=torch.float64))
    path = looked_ahead(bed, start, Spec(40 if evidence.preset != "smoke" else 5, ALPHA))
    q = torch.stack([bed.inner_value(start.v, theta) for theta in path]).numpy()
    curves = split(q / q[0])
    bounds = {family: inner_rate(ALPHA, kappa) for family, kappa in evidence.pl.items()}
    t = np.arange(float(len(q)))
    fits = {family: spread(decay_rates(t, curve, 1e-12)) for family, curve in curves.items()}
    claims = []
    for family, curve in curves.items():
        allowed = np.exp(-bounds[family] * t)[:, None]
        worst = float((curve / allowed)[1:][curve[1:] > 1e-13].max())
        words = f"largest ratio to the bound {worst:.3f}; rate {fits[family]} for each step, bound {bounds[family]:.3f}"
        text = "q(v, θ^(t)) ≤ (1 − (α − Lα²/2)κ)^t q(v, θ)"
        claims.append(Claim(text, "lemma on the inner steps (b₁ corrected)", family, words, worst <= 1 + EXACT))
    rows = [evidence.row(family, f"α = {ALPHA:.3f}", "rate of decay of q in t", fit) for family, fit in fits.items()]
    about = paragraph(__file__, "inner decay")
    caption = "A line for each instance; dashed: the bound, with b₁ corrected."
    drawing = draw("inner_decay", "Inner decay", caption, figures.inner_decay, curves, bounds)
    return Topic(Section("Decay of q in the inner loop", about, (drawing,)), claims, rows)
