"""The theory of the paper, measured: rates with fitted slopes beside the bounds, on random instances."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bome.experiments import theory_figures as figures
from bome.experiments.base import Claim, Findings, Preset, Report, Row, Section
from bome.experiments.instances import (
    Checks,
    Fit,
    Residuals,
    Sines,
    Spec,
    looked_ahead,
    power,
    residual_start,
    slopes,
    spread,
)
from bome.experiments.theory_figures import COLOUR, MARKS, Line, Panel, draw
from bome.experiments.theory_sweeps import (
    ALPHA,
    LONG,
    SHORT_ALPHA,
    Array,
    Outcome,
    Sweep,
    carry_out,
    inner_rate,
    problems_of,
    sweeps,
)
from bome.experiments.trials import default_workers
from bome.reports.figures import COLOURS

ABOUT = (
    "What the paper proves of BOME, measured on random instances: 𝒦 = min_{λ≥0} ‖∇f + λ∇q‖² + q and everything else is "
    "exact, not an estimate from θ^(T). “quadratic” instances are strongly convex in θ; “wavy” ones are not convex but "
    "satisfy the PL inequality; the sine problem has many basins. The theorems are upper bounds: a claim holds if the "
    "fitted slope is at least as steep as the bound by two standard errors; the slope found is usually steeper."
)

NOTES = (
    "f = ½‖θ − a‖² + ½‖v − b‖², g = Σ ½h r² + w(1 − cos r), r = θ − Av, θ ∈ R⁴, v ∈ R³; A, a, b normal, ‖A‖² = ½. "
    "quadratic: w = 0, h in [¾, 1], so L = 3/2 and κ = 3/2. wavy: w = ¾, h = ¼, so L = 3/2 and κ = 0.044.",
    "α = 1/L = ⅔ and T = 12 unless said, η = ½. T = 12 is at least the constant c of Theorem 1 for the quadratic family "
    "(c = 11 with the corrected constants); for the wavy one c is over 1000, far more than is needed.",
    "Constants of the proofs are used as corrected: b₁ = −log(1 − (α − Lα²/2)κ), which is printed without the minus, "
    "c = ⌈b₁⁻¹ log(64 L_q²/κ)⌉ and L_q = 2L(L/κ + 1). The exponent of the theorem is b = b₁/2.",
    "The bounds hold for bounded f, g and gradients, which is not so on all of R^d here, but along each run.",
    "The δ in the barrier inequality is taken from the moves that were made, (x_k − x_{k+1})/ξ, not from the method. "
    "Standard errors are over instances, or over starts for the sine problem.",
)

SMOKE_NOTE = "Preset smoke takes a few steps only: it shows that everything works, and says nothing of the claims."

FAMILIES = ("quadratic", "wavy")
EXACT = 1e-8
"""Relative rounding error allowed in inequalities that hold exactly; moves are differences of nearly equal points."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was run."""

    preset: Preset
    made: Mapping[str, Sweep]
    outcomes: Mapping[str, Outcome]

    def where(self, name: str, use: str) -> tuple[list[int], Array, Array]:
        """The indices, step sizes and numbers of steps of the settings of one use."""
        settings = self.made[name].settings
        at = [i for i, setting in enumerate(settings) if setting.use == use]
        return at, np.array([settings[i].rate for i in at]), np.array([float(settings[i].steps) for i in at])

    def named(self, start: str) -> list[str]:
        """The sweeps whose names begin so, in order."""
        return sorted((name for name in self.made if name.startswith(start)), key=lambda name: float(name.split("-")[1]))

    @property
    def instances(self) -> Residuals:
        """The random instances."""
        return problems_of(self.made["floors"])

    def row(self, task: str, variant: str, metric: str, fit: Fit) -> Row:
        """A number of the report."""
        command = f"bome reproduce theory --preset {self.preset}"
        return Row(task, "bome", variant, metric, fit.mean, fit.se, fit.count, self.preset, command)


class Topic(NamedTuple):
    """One part of the report with what follows from it."""

    section: Section
    claims: Sequence[Claim]
    rows: Sequence[Row]


class Theory:
    """The theory experiment."""

    name = "theory"

    def carry_out(self, preset: Preset, folder: Path, report: Report) -> Findings:
        """Run it; sweeps that are finished in `folder` are read, not run again."""
        made = sweeps(preset)
        outcomes = carry_out(made, folder, report, workers=1 if preset == "smoke" else default_workers())
        evidence = Evidence(preset, {sweep.name: sweep for sweep in made}, outcomes)
        topics = [topic(evidence) for topic in TOPICS]
        claims = [claim for topic in topics for claim in topic.claims]
        return Findings(
            title="The theory of the paper",
            about=ABOUT,
            sections=tuple(topic.section for topic in topics),
            claims=tuple(replace(claim, holds=None) if preset == "smoke" else claim for claim in claims),
            rows=tuple(row for topic in topics for row in topic.rows),
            notes=(SMOKE_NOTE, *NOTES) if preset == "smoke" else NOTES,
        )


THEORY = Theory()


def floors(evidence: Evidence) -> Topic:
    """𝒦, q, ‖v − v*‖ and λ against ξ."""
    at, rates, _ = evidence.where("floors", "rate")
    average = {name: values[at] for name, values in evidence.outcomes["floors"].average.items()}
    shown = {
        "kkt": (r"$\mathcal{K}$, mean of the last 20 %", (0.5, r"bound $\xi^{1/2}$")),
        "q": ("$q$, mean of the last 20 %", (1.0, r"bound $\xi$")),
        "distance": (r"$\|v-v^*\|$, mean of the last 20 %", None),
        "lam": (r"$\lambda$, mean of the last 20 %", None),
    }
    fits = {name: _by_family(average[name], lambda y: power(rates, y)) for name in shown}
    panels = [
        Panel(r"step size $\xi$", up, rates, _lines(average[name], fits[name]), bound)
        for name, (up, bound) in shown.items()
    ]
    level = {name: _by_family(average["lam"] * rates[:, None], lambda y: spread(y[-1])) for name in ("lam",)}["lam"]
    claims = [
        *(_slope_claim("Theorem 1: with constant ξ and K → ∞, 𝒦 = O(ξ^{1/2})", "Theorem 1", f, fits["kkt"][f], 0.5)
          for f in FAMILIES),
        *(_slope_claim("q falls to a floor Δ = O(ξ)", "Lemma (decay of q)", f, fits["q"][f], 1.0) for f in FAMILIES),
    ]  # fmt: skip
    names = {"kkt": "𝒦", "q": "q", "distance": "‖v − v*‖", "lam": "λ"}
    rows = [evidence.row(f, "constant ξ", f"exponent of {names[n]} in ξ", fits[n][f]) for n in shown for f in FAMILIES]
    rows += [evidence.row(f, "constant ξ", f"λξ at ξ = {rates[-1]:g}", level[f]) for f in FAMILIES]
    about = (
        "With a constant step size BOME settles at a floor. The paper bounds it by 𝒦 = O(ξ^{1/2}) and q = O(ξ); here 𝒦 "
        f"falls like ξ^{fits['kkt']['quadratic'].mean:.2f} and q like ξ^{fits['q']['quadratic'].mean:.2f} (quadratic). "
        "The solution itself is found up to ‖v − v*‖ ∝ ξ, about which the paper says nothing, and λ grows like 1/ξ "
        f"(λξ = {level['quadratic']} and {level['wavy']}): the multiplier rises until the step is at the edge of stability."
    )
    drawings = (
        draw("stationarity_and_gap_against_step_size", "𝒦 and q against ξ", "Points: means over instances with standard "
             "errors. Dashed: the slope of the bound; its height has no meaning.", lambda: figures.powers(panels[:2])),
        draw("distance_and_multiplier_against_step_size", "‖v − v*‖ and λ against ξ", "The distance to the solution falls "
             "like ξ, the multiplier grows like 1/ξ.", lambda: figures.powers(panels[2:])),
    )  # fmt: skip
    return Topic(Section("The floor of constant step sizes", about, drawings), claims, rows)


def schedules(evidence: Evidence) -> Topic:
    """The K^{-1/4} and K^{-1/3} schedules."""
    outcome = evidence.outcomes["floors"]
    claims: list[Claim] = []
    rows: list[Row] = []
    panels = []
    plans = (
        ("quarter", 0.25, r"$\xi=K^{-1/2}$, $q_0=1$", "ξ = K^{-1/2}, q₀ = 1", r"bound $K^{-1/4}$"),
        ("third", 1 / 3, r"$\xi=K^{-2/3}$, $q_0=1/(\xi K)$", "ξ = K^{-2/3}, q₀ = 1/(ξK)", r"bound $K^{-1/3}$"),
    )
    for use, bound, title, plan, label in plans:
        at, _, counts = evidence.where("floors", use)
        lines = []
        for family in FAMILIES:
            ends = {"last": outcome.last["kkt"][at], "min": outcome.least["kkt"][at], "mean": outcome.average["kkt"][at]}
            mine = {kind: _family(values, family) for kind, values in ends.items()}
            fits = {kind: power(counts, values) for kind, values in mine.items()}
            lines.append(Line(rf"$\mathcal{{K}}_K$, {family}", COLOUR[family], mine["last"], fits["last"]))
            lines.append(Line(rf"$\min_k$, {family}", COLOUR[family], mine["min"], fits["min"], "s", filled=False))
            text = f"min_k 𝒦 = O(K^{{-{'1/4' if use == 'quarter' else '1/3'}}}) with {plan}"
            claims.append(_slope_claim(text, "remark on Theorem 1", family, _minus(fits["min"]), bound,
                                       f"exponent {fits['min']} of min_k 𝒦, {fits['last']} of the last 𝒦, {fits['mean']} "
                                       "of its mean over the last 20 %"))  # fmt: skip
            rows += [evidence.row(family, plan, f"exponent of {kind} 𝒦 in K", fit) for kind, fit in fits.items()]
        panels.append(Panel("outer steps $K$", r"$\mathcal{K}$", counts, lines, (-bound, label), title))
    about = (
        "Step sizes chosen for K steps. min_k 𝒦, which the theorem bounds, is optimistic: 𝒦 dips where a run happens to "
        "cross a point at which ∇f and ∇q are opposed. The last 𝒦 is what a user gets; both are shown."
    )
    caption = "Filled: 𝒦 at the last step. Open: the least 𝒦 of the run. Dashed: the slope of the bound."
    drawing = draw("schedules", "The two schedules", caption, lambda: figures.powers(panels))
    return Topic(Section("Rates in the number of steps", about, (drawing,)), claims, rows)


def inner_steps(evidence: Evidence) -> Topic:
    """e^{-bT}, and whether T must grow like log K."""
    names = evidence.named("T-")
    ts = np.array([float(evidence.made[name].inner_steps) for name in names])
    at, (rate,), _ = evidence.where(names[0], "fixed")
    kkt, distance = (
        np.stack([evidence.outcomes[name].average[what][at[0]] for name in names]) for what in ("kkt", "distance")
    )
    pl = float(evidence.instances.pl()[0])
    b = inner_rate(SHORT_ALPHA, 1.5, pl) / 2
    fits = {what: _family_decay(ts, values, "quadratic") for what, values in (("kkt", kkt), ("distance", distance))}
    panels = [
        (r"$\|v-v^*\|$", ts, _t_lines(distance, fits["distance"]), b, r"bound $e^{-bT}$"),
        (r"$\mathcal{K}$", ts, _t_lines(kkt, fits["kkt"]), b, r"bound $e^{-bT}$"),
    ]
    growth, found, saturates, grows = _growth(evidence, names, ts, b)
    claims = [
        _slope_claim("𝒦 depends on T through a term O(e^{-bT})", "Theorem 1", "quadratic", fits["kkt"], b,
                     f"𝒦 falls like e^{{-({fits['kkt']})T}}, ‖v − v*‖ like e^{{-({fits['distance']})T}}, b = {b:.2f}"),
        Claim("T must grow like log K for 𝒦 to go to 0 with K", "Theorem 1 and its remark", "quadratic", found,
              saturates and grows),
    ]  # fmt: skip
    rows = [
        evidence.row("quadratic", f"α = {SHORT_ALPHA}, ξ = {rate:g}", f"rate of {label} in T", fits[what])
        for what, label in (("kkt", "𝒦"), ("distance", "‖v − v*‖"))
    ]
    about = (
        "With finite T the method settles at a point that is stationary for T-step unrolling, not for the problem. The "
        "error of v falls like the inner contraction (1 − αμ)^T, and 𝒦 like its square, until the floor of ξ is met. So "
        "a fixed T leaves a floor of 𝒦 that no number of outer steps removes, and T ∝ log K is enough to stay above it."
    )
    drawings = (
        draw("inner_steps", "Errors against T", f"α = {SHORT_ALPHA}, ξ = {rate:g}: exponential decay down to the floor of "
             "ξ. Dashed: the bound, of which only the slope has a meaning.", lambda: figures.inner_steps(panels)),
        draw("fixed_and_growing_inner_steps", "Must T grow?", "𝒦 at the end (mean of the last 20 %) with ξ = K^{-1/2}, "
             "quadratic instances: fixed T levels off, T = ⌈log K / (4b)⌉ does not.", lambda: figures.powers([growth])),
    )  # fmt: skip
    return Topic(Section("Inner steps", about, drawings), claims, rows)


def _growth(evidence: Evidence, names: Sequence[str], ts: Array, b: float) -> tuple[Panel, str, bool, bool]:
    """𝒦 against K for fixed T and for T ∝ log K: the panel, what is seen, and whether it is as the theory says."""
    at, _, counts = evidence.where(names[0], "quarter")
    table = np.stack([_family(evidence.outcomes[name].average["kkt"][at], "quadratic") for name in names])
    wanted = np.log(counts) / (4 * b)
    chosen = [int(np.argmax(ts >= min(want, ts[-1]))) for want in wanted]
    rule = np.stack([table[t, i] for i, t in enumerate(chosen)])
    shown = [i for i, t in enumerate(ts) if t in (1, 2, 4)]
    fixed = [Line(f"$T={ts[i]:.0f}$", COLOURS[n + 1], table[i], None, MARKS[n + 1]) for n, i in enumerate(shown)]
    line = Line(r"$T=\lceil\log K/(4b)\rceil$", COLOURS[0], rule, power(counts, rule))
    ends = slice(len(counts) - 2, len(counts))
    flat, steep = power(counts[ends], table[0][ends]), power(counts, rule)
    found = (
        f"last exponents of 𝒦 in K: {flat} with T = {ts[0]:.0f}; over all K {steep} with T = "
        f"{', '.join(f'{ts[t]:.0f}' for t in chosen)} for K = {', '.join(f'{k:.0f}' for k in counts)}; a floor of larger "
        "fixed T lies below what these K reach"
    )
    panel = Panel("outer steps $K$", r"$\mathcal{K}$", counts, [*fixed, line], (-0.25, r"bound $K^{-1/4}$"))
    return panel, found, flat.mean > -0.25, steep.mean + 2 * steep.se <= -0.25


def inner_decay(evidence: Evidence) -> Topic:
    """q(v, θ^(t)) against its bound."""
    bed = evidence.instances
    count = len(bed.w)
    start = residual_start(bed, torch.ones(count, dtype=torch.float64))
    path = looked_ahead(bed, start, Spec(40 if evidence.preset != "smoke" else 5, ALPHA))
    q = torch.stack([bed.inner_value(start.v, theta) for theta in path]).numpy()
    curves = {family: _family(q / q[0], family) for family in FAMILIES}
    pl = dict(zip(FAMILIES, (float(bed.pl()[0]), float(bed.pl()[-1])), strict=True))
    bounds = {family: inner_rate(ALPHA, 1.5, pl[family]) for family in FAMILIES}
    fits = {family: _initial_rate(curve, 1e-12) for family, curve in curves.items()}
    claims = []
    for family, curve in curves.items():
        allowed = np.exp(-bounds[family] * np.arange(len(curve)))[:, None]
        seen = curve > 1e-13
        worst = float((curve / allowed)[seen].max())
        found = f"largest ratio to the bound {worst:.3f}; rate {fits[family]} for each step, bound {bounds[family]:.3f}"
        text = "q(v, θ^(t)) ≤ (1 − (α − Lα²/2)κ)^t q(v, θ)"
        claims.append(Claim(text, "Lemma (inner steps), b₁ with its sign corrected", family, found, worst <= 1 + EXACT))
    rows = [evidence.row(f, f"α = {ALPHA:.3f}", "rate of decay of q in t", fit) for f, fit in fits.items()]
    about = (
        "Gradient descent on g(v, ·) decreases q by a constant factor in each step. At α = 1/L a quadratic contracts by "
        "(1 − αμ)² where the bound has 1 − αμ: twice the rate. For the wavy family the PL constant of the worst place "
        "governs the bound, the curvature at the minimum the decay."
    )
    drawing = draw(
        "inner_decay",
        "Inner decay",
        "A line for each instance; dashed: the bound, with corrected b₁.",
        lambda: figures.inner_decay(curves, bounds),
    )
    return Topic(Section("Decay of q in the inner loop", about, (drawing,)), claims, rows)


def outer_decay(evidence: Evidence) -> Topic:
    """q_k against ξη."""
    names = evidence.named("eta-")
    pl = float(evidence.instances.pl()[0])
    products: list[float] = []
    rates: list[Array] = []
    curves: dict[str, Array] = {}
    floors_: dict[str, float] = {}
    k = evidence.outcomes[names[0]].at
    for name in names:
        outcome, sweep = evidence.outcomes[name], evidence.made[name]
        for i, setting in enumerate(sweep.settings):
            q, floor = outcome.curves["q"][:, i], outcome.average["q"][i]
            products.append(setting.rate * sweep.eta)
            rates.append(_outer_rates(outcome.at, q, floor))
            if i == 0:
                label = rf"$\eta={sweep.eta:g}$, $\xi={setting.rate:g}$"
                curves[label] = _family(q, "quadratic").mean(1)
                floors_[label] = float(_family(floor, "quadratic").mean())
    order = np.argsort(products, kind="stable")
    across, table = np.array(products)[order], np.stack(rates)[order]
    by_family = {family: _family(table, family) for family in FAMILIES}
    fits = {family: power(across, values) for family, values in by_family.items()}
    level = spread((by_family["quadratic"] / across[:, None] / pl).mean(0))
    bound = -np.log(1 - across * pl / 4)[:, None]
    above = float((by_family["quadratic"] / bound).min())
    claims = [
        Claim("q_k ≤ (1 − ξηκ/4)^k q₀ + Δ: decay at a rate of at least ξηκ/4 down to a floor", "Lemma (decay of q)",
              "quadratic", f"least ratio of a fitted rate to the bound {above:.1f}; rate = ({level}) ξηκ", above >= 1),
        Claim("the rate of decay is proportional to ξη", "Lemma (decay of q)", "quadratic and wavy",
              f"exponents of the rate in ξη: {fits['quadratic']} and {fits['wavy']}",
              all(abs(fit.mean - 1) <= max(0.1, 2 * fit.se) for fit in fits.values())),
    ]  # fmt: skip
    rows = [evidence.row(f, "q₀ = 10", "exponent of the rate of q_k in ξη", fits[f]) for f in FAMILIES]
    rows.append(evidence.row("quadratic", "q₀ = 10", "rate of q_k over ξηκ", level))
    about = (
        "From q₀ = 10 the gap falls exponentially until it meets the floor of its step size. Where λ > 0 the barrier makes "
        "q fall by ξη‖∇q‖² ≥ ξηκq in each step to first order; the paper's bound has a quarter of that. Rates are fitted "
        "from 10 down to 10 times the floor."
    )
    caption = "Left: q_k, dotted the floor of each run. Right: rates fitted to all (ξ, η), and the bound."
    drawing = draw("outer_decay", "Outer decay of q", caption,
                   lambda: figures.outer_decay(k, curves, floors_, across, by_family, pl))  # fmt: skip
    return Topic(Section("Decay of q in the outer loop", about, (drawing,)), claims, rows)


def inequalities(evidence: Evidence) -> Topic:
    """The gradient-error bound and the barrier inequality, at every step of every run."""
    checks = [outcome.checks for outcome in evidence.outcomes.values()]
    whole = Checks(
        sum(c.steps for c in checks),
        sum(c.active for c in checks),
        max(c.error for c in checks),
        min(c.slack for c in checks),
        max(c.equality for c in checks),
    )
    pairs = {}
    for name in evidence.named("T-"):
        outcome = evidence.outcomes[name]
        if evidence.made[name].inner_steps in (1, 4, 8, 16) or len(evidence.named("T-")) < 4:
            bound, error = (outcome.curves[what][:, 0].ravel() for what in ("error_bound", "error"))
            pairs[f"$T={evidence.made[name].inner_steps}$"] = (bound, error)
    every = f"{whole.steps:,} steps of single runs"
    claims = [
        Claim("‖∇q − ∇q̂‖ ≤ L‖θ^(T) − θ*‖", "Lemma (error of ∇q̂)", "quadratic, wavy and sine",
              f"largest ratio {whole.error:.3f} in {every}", whole.error <= 1 + EXACT),
        Claim("⟨∇q̂, δ⟩ ≥ η‖∇q̂‖²", "equation of the dynamic barrier", "quadratic, wavy and sine",
              f"least relative slack {whole.slack:.1e} in {every}", whole.slack >= -EXACT),
        Claim("with equality where λ > 0", "equation of the dynamic barrier", "quadratic, wavy and sine",
              f"largest relative slack {whole.equality:.1e} in {whole.active:,} steps with λ > 0",
              whole.equality <= EXACT),
    ]  # fmt: skip
    rows = [
        evidence.row("all", "every step", "largest error of ∇q̂ over its bound", Fit(whole.error, 0.0, whole.steps)),
        evidence.row("all", "every step", "least relative slack of the barrier", Fit(whole.slack, 0.0, whole.steps)),
    ]
    rows = [replace(row, se=None) for row in rows]
    about = (
        "Two inequalities that every proof rests on, tested at all steps of all runs of this page. The bound on the error "
        "of ∇q̂ is nearly tight when θ^(T) − θ* lies along the strongest coupling of A."
    )
    caption = "Each point is a step of a run; T = 1 to 16, constant ξ. None lies above the dashed line."
    drawing = draw("gradient_error", "Error of ∇q̂", caption, lambda: figures.gradient_error(pairs))
    return Topic(Section("Inequalities at every step", about, (drawing,)), claims, rows)


def proposition(evidence: Evidence) -> Topic:
    """The residual of the stationarity condition with ω_k = λ_k(θ_k − θ^(T)), with decreasing steps."""
    outcome = evidence.outcomes["decreasing"]
    k = outcome.at
    late = k >= k[-1] / 100
    curves = {name: values[:, 0] for name, values in outcome.curves.items()}
    fits = {
        name: _by_family(values[late], lambda y: power(k[late] + 1, y)) for name, values in curves.items()
    }  # fmt: skip
    ends = _by_family(curves["residual"][-10:], lambda y: spread(y.mean(0)))
    first = _by_family(curves["residual"][:10], lambda y: spread(y.mean(0)))
    claims = []
    for family in FAMILIES:
        residual, lam = fits["residual"][family], fits["lam"][family]
        found = (
            f"residual from {first[family]} to {ends[family]} (exponent {residual} in k), λ_k grows with exponent {lam}; "
            f"𝒦 has {fits['kkt'][family]}, ‖v − v*‖ {fits['distance'][family]}"
        )
        holds = residual.mean + 2 * residual.se < 0 < lam.mean - 2 * lam.se
        text = "limits satisfy ∇f + ∇(∇_θ q)ω = 0, ω being the limit of λ_k(θ_k − θ^(T)), though λ_k → ∞"
        claims.append(Claim(text, "Proposition 1", family, found, holds))
    label = {"residual": "residual of (kkt2)", "lam": "λ_k", "kkt": "𝒦", "distance": "‖v − v*‖"}
    rows = [
        evidence.row(f, "ξ_k = ½(k+1)^{-1/2}", f"exponent of {label[name]} in k", fits[name][f])
        for name in label
        for f in FAMILIES
    ]
    panels = [
        (r"$\|\nabla f+\nabla(\nabla_\theta g)\,\omega_k\|$", _split(curves["residual"]), -0.25, "$k^{-1/4}$"),
        (r"$\lambda_k$", _split(curves["lam"]), 0.5, "$k^{1/2}$"),
    ]
    about = (
        "At a feasible point ∇q = 0, so no finite λ balances ∇f; the condition that does hold has a vector ω. With steps "
        "ξ_k = ½(k+1)^{-1/2} the multiplier grows without end while λ_k(θ_k − θ^(T)) settles, and the residual of the "
        "condition goes to 0 (slowly: it is about √𝒦, and 𝒦 ∝ ξ_k)."
    )
    caption = "Lines: means over instances; bands: all of them. Dashed: the slope that 𝒦 ∝ ξ_k and λ ∝ 1/ξ_k suggest."
    drawing = draw("proposition", "Proposition 1", caption, lambda: figures.along(k, panels))
    return Topic(Section("The stationarity condition", about, (drawing,)), claims, rows)


def basins(evidence: Evidence) -> Topic:
    """𝒦◇ with several basins."""
    outcome = evidence.outcomes["basins"]
    at, _, counts = evidence.where("basins", "quarter")
    values = {"last": outcome.last["kkt"][at], "min": outcome.least["kkt"][at], "mean": outcome.average["kkt"][at]}
    fits = {kind: power(counts, y) for kind, y in values.items()}
    lines = [
        Line(r"$\mathcal{K}^\diamond_K$", COLOURS[0], values["last"], fits["last"]),
        Line("mean of the last 20 %", COLOURS[2], values["mean"], fits["mean"], "^"),
        Line(r"$\min_k \mathcal{K}^\diamond$", COLOURS[1], values["min"], fits["min"], "s", filled=False),
    ]
    panel = Panel("outer steps $K$", r"$\mathcal{K}^\diamond$", counts, lines, (-0.25, r"bound $K^{-1/4}$"))
    ends = outcome.basins[-1]
    local = Sines().local_value(torch.from_numpy(ends).long()).numpy()
    found = outcome.last["f"][-1]
    labels = [f"({min(row):.0f}, {max(row):.0f})" for row in ends]
    off = np.abs(found - local) / (1 + local)
    order = bool(_ordered(local, found))
    jumped, started = int((outcome.jumps[-1] > 0).sum()), len(found)
    claims = [
        _slope_claim("min_k 𝒦◇ = O(K^{-1/4}) with ξ = K^{-1/2}", "Theorem 2", "sine", _minus(fits["min"]), 0.25,
                     f"exponent {fits['min']} of min_k 𝒦◇, {fits['last']} of the last, {fits['mean']} of the mean over "
                     "the last 20 %"),
        Claim("the iterates converge to a local solution of the basin they end in", "section on multimodal g", "sine",
              f"|f − f_basin| / (1 + f_basin) at most {off.max():.3f} over {started} starts in {len(set(labels))} basins "
              f"at K = {counts[-1]:.0f}; f is ordered as the basins are: {'yes' if order else 'no'}",
              bool(off.max() < 0.1) and order),
        Claim("the basin may change along the way", "remark on Theorem 2", "sine",
              f"{jumped} of {started} runs with K = {counts[-1]:.0f} change it; with K = {counts[0]:.0f} "
              f"{int((outcome.jumps[0] > 0).sum())}", jumped > 0 or bool((outcome.jumps > 0).any())),
    ]  # fmt: skip
    rows = [evidence.row("sine", "ξ = K^{-1/2}", f"exponent of {kind} 𝒦◇ in K", fit) for kind, fit in fits.items()]
    rows.append(evidence.row("sine", f"K = {counts[-1]:.0f}", "(f − f_basin) / (1 + f_basin)", spread((found - local) / (1 + local))))
    about = (
        "g(v, ·) = Σ sin(v + θ_i − 2) has a minimum in every period. The start decides the basin, and each basin has a "
        "solution of its own, with another f: 𝒦◇ → 0 says nothing of which one is found. Starts are uniform in a box."
    )
    drawings = (
        draw("basins_rate", "𝒦◇ against K", "Means over starts with standard errors. Dashed: the slope of the bound.",
             lambda: figures.powers([panel])),
        draw("basins_value", "f by basin", f"f after {counts[-1]:.0f} steps against the least f in the basin; a shape and a "
             "colour for each basin.", lambda: figures.by_basin(local, found, labels)),
    )  # fmt: skip
    return Topic(Section("Several basins", about, drawings), claims, rows)


TOPICS: tuple[Callable[[Evidence], Topic], ...] = (
    floors,
    schedules,
    inner_steps,
    inner_decay,
    outer_decay,
    inequalities,
    proposition,
    basins,
)


def _family(values: Array, family: str) -> Array:
    """The instances of one family, which are one half of the last dimension."""
    half = values.shape[-1] // 2
    return values[..., :half] if family == "quadratic" else values[..., half:]


def _split(values: Array) -> dict[str, Array]:
    return {family: _family(values, family) for family in FAMILIES}


def _by_family(values: Array, fit: Callable[[Array], Fit]) -> dict[str, Fit]:
    return {family: fit(mine) for family, mine in _split(values).items()}


def _lines(values: Array, fits: Mapping[str, Fit]) -> list[Line]:
    return [Line(family, COLOUR[family], mine, fits[family]) for family, mine in _split(values).items()]


def _t_lines(values: Array, fit: Fit) -> list[Line]:
    known: dict[str, Fit | None] = {"quadratic": fit, "wavy": None}
    return [Line(family, COLOUR[family], mine, known[family]) for family, mine in _split(values).items()]


def _minus(fit: Fit) -> Fit:
    return fit._replace(mean=-fit.mean)


def _slope_claim(text: str, place: str, variant: str, fit: Fit, bound: float, found: str = "") -> Claim:
    """Holds if the slope is at least as steep as the bound by two standard errors; cannot be said if within them."""
    holds = None if abs(fit.mean - bound) < 2 * fit.se else fit.mean >= bound
    return Claim(text, place, variant, found or f"exponent {fit} (bound {bound:g})", holds)


def _family_decay(t: Array, values: Array, family: str) -> Fit:
    """The rate of exponential decay in T where the values are well above their floor, which is that of the last T."""
    mine = _family(values, family)
    above = mine.mean(1) > 3 * mine[-1].mean()
    used = np.arange(len(t)) < max(2, int(np.argmin(above)) if not above.all() else len(t))
    return _minus(spread(slopes(t[used], np.log(mine[used]))))


def _initial_rate(curve: Array, floor: float) -> Fit:
    """The rate of exponential decay of each column down to a floor."""
    return spread(np.array([_rate(np.arange(len(column)), column, floor) for column in curve.T]))


def _outer_rates(k: Array, q: Array, floor: Array) -> Array:
    """The rate of decay of each run until it is near its floor."""
    return np.array([_rate(k, column, 10 * low) for column, low in zip(q.T, floor, strict=True)])


def _rate(k: Array, values: Array, floor: float) -> float:
    """The least-squares rate of decay of log values until they first fall below the floor."""
    below = np.flatnonzero(values < floor)
    end = max(3, int(below[0])) if len(below) else len(values)
    return float(-slopes(k[:end], np.log(values[:end, None]))[0])


def _ordered(local: Iterable[float], found: Iterable[float]) -> bool:
    """Whether f at the end has the order of the best f of the basins, as far as these differ."""
    pairs = sorted(zip(local, found, strict=True))
    return all(b[1] > a[1] for a, b in zip(pairs, pairs[1:], strict=False) if b[0] > a[0] * 1.05 + 1e-9)


assert math.isclose(ALPHA * 1.5, 1) and LONG  # noqa: PT018, S101 - L = 3/2 in the notes
