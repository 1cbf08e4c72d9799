"""The outer loop: how q falls, the inequalities of every step, and the condition that holds at the limit."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.study import Claim, Section
from bome_studies.theory import figures as figures
from bome_studies.theory.evidence import EXACT, FAMILIES, Evidence, Topic, by_family, split
from bome_studies.theory.fits import Array, Fit, decay_rates, power, spread
from bome_studies.theory.tallies import TINY, Checks

OUTER_TOP = 1.0
"""Where the fit of the outer decay of q begins: above it, λ = 0 at most steps, and η does not matter."""


def outer_decay(evidence: Evidence) -> Topic:
    """q_k against ξη."""
    names = evidence.named("eta-")
    kappa = evidence.pl["quadratic"]
    products: list[float] = []
    rates: list[Array] = []
    curves: dict[str, tuple[Array, float]] = {}
    low = 10 * np.max([evidence.outcomes[name].average["q"] for name in names], axis=(0, 1))
    for name in names:
        outcome, sweep = evidence.outcomes[name], evidence.sweeps[name]
        for i, setting in enumerate(sweep.settings):
            q, floor = outcome.curves["q"][:, i], outcome.average["q"][i]
            products.append(setting.rate * sweep.eta)
            rates.append(decay_rates(outcome.at, q, low, OUTER_TOP))
            if i == 0:
                label = rf"$\eta={sweep.eta:g}$, $\xi={setting.rate:g}$"
                curves[label] = (split(q)["quadratic"].mean(1), float(split(floor)["quadratic"].mean()))
    order = np.argsort(products, kind="stable")
    across, decays = np.array(products)[order], split(np.stack(rates)[order])
    fits = {family: power(across, values) for family, values in decays.items()}
    level = spread((decays["quadratic"] / across[:, None] / kappa).mean(0))
    least = float((decays["quadratic"] / -np.log(1 - across * kappa / 4)[:, None]).min())
    claims = [
        Claim(
            "q_k ≤ (1 − ξηκ/4)^k q₀ + Δ: q falls at a rate of at least ξηκ/4, down to a floor",
            "lemma on the decay of q",
            "quadratic",
            f"least ratio of a fitted rate to the bound {least:.1f}; rate = ({level}) ξηκ",
            least >= 1,
        ),
        Claim(
            "the rate of decay is proportional to ξη",
            "lemma on the decay of q",
            "quadratic and wavy",
            f"exponents of the rate in ξη: {fits['quadratic']} and {fits['wavy']}",
            all(abs(fit.mean - 1) <= max(0.1, 2 * fit.se) for fit in fits.values()),
        ),
    ]
    rows = [evidence.row(family, "q₀ = 10", "exponent of the rate of q_k in ξη", fits[family]) for family in FAMILIES]
    rows.append(evidence.row("quadratic", "q₀ = 10", "rate of q_k over ξηκ", level))
    about = paragraph(__file__, "outer decay")
    caption = "Left: q_k; dotted: the floor of each setting. Right: rates fitted for all (ξ, η), and the bound."
    k = evidence.outcomes[names[0]].at

    drawing = draw("outer_decay", "Outer decay of q", caption, figures.outer_decay, k, curves, across, decays, kappa)
    return Topic(Section("Decay of q in the outer loop", about, (drawing,)), claims, rows)


def inequalities(evidence: Evidence) -> Topic:
    """The gradient-error bound and the barrier inequality, at every step of every run."""
    whole = _all_checks([outcome.checks for outcome in evidence.outcomes.values()])
    names = evidence.named("T-")
    pairs = {}
    for name in names:
        t, curves = evidence.sweeps[name].inner_steps, evidence.outcomes[name].curves
        if t in (1, 4, 8, 12) or len(names) < 4:
            pairs[f"$T={t}$"] = curves["error_bound"][:, 0].ravel(), curves["error"][:, 0].ravel()
    every, all_beds = f"{whole.steps:,} steps of single runs", "quadratic, wavy and sine"
    claims = [
        Claim(
            "‖∇q − ∇q̂‖ ≤ L‖θ^(T) − θ*‖",
            "lemma on the error of ∇q̂",
            all_beds,
            f"largest ratio {whole.error:.3f} in {every}",
            whole.error <= 1 + EXACT,
        ),
        Claim(
            "⟨∇q̂, δ⟩ ≥ η‖∇q̂‖² at every step",
            "definition of δ (dynamic barrier)",
            all_beds,
            f"least relative slack {whole.slack:.1e} in {every}, but for {whole.tiny:,} at which ‖∇q̂‖ < {TINY:g} and "
            "rounding decides the direction of ∇q̂",
            whole.slack >= -EXACT,
        ),
        Claim(
            "with equality where λ > 0",
            "definition of δ (dynamic barrier)",
            all_beds,
            f"largest relative difference {whole.equality:.1e} in {whole.active:,} steps with λ > 0",
            whole.equality <= EXACT,
        ),
    ]
    numbers = {"largest error of ∇q̂ over its bound": whole.error, "least relative slack of the barrier": whole.slack}
    rows = [
        replace(evidence.row("all", "every step", name, Fit(value, 0.0, whole.steps)), se=None)
        for name, value in numbers.items()
    ]
    about = paragraph(__file__, "inequalities")
    caption = f"Each point is one step of one run, T = {', '.join(key[3:-1] for key in pairs)}. None is above the line."
    drawing = draw("gradient_error", "Error of ∇q̂", caption, figures.gradient_error, pairs)
    return Topic(Section("Inequalities at every step", about, (drawing,)), claims, rows)


def proposition(evidence: Evidence) -> Topic:
    """The residual of the stationarity condition with ω_k = λ_k(θ_k − θ^(T)), with decreasing steps."""
    outcome = evidence.outcomes["decreasing"]
    k = outcome.at
    late = k >= k[-1] / 10
    curves = {name: values[:, 0] for name, values in outcome.curves.items()}
    fits = {name: by_family(values[late], lambda y: power(k[late] + 1, y)) for name, values in curves.items()}
    first, last = (
        by_family(curves["residual"][part], lambda y: spread(y.mean(0))) for part in (slice(10), slice(-10, None))
    )
    claims = []
    for family in FAMILIES:
        residual, lam = fits["residual"][family], fits["lam"][family]
        words = (
            f"residual from {first[family]} (first 10 points) to {last[family]} (last 10); exponents in k over the "
            f"last decade: {residual}, {lam} of λ_k, {fits['kkt'][family]} of 𝒦, {fits['distance'][family]} of ‖v − v*‖"
        )
        holds = residual.mean + 2 * residual.se < 0 < lam.mean - 2 * lam.se
        text = "limits satisfy ∇f + ∇(∇_θ q)ω = 0 (kkt2), here with ω = lim λ_k(θ_k − θ^(T)), though λ_k → ∞"
        claims.append(Claim(text, "Proposition 1", family, words, holds))
    label = {"residual": "residual of (kkt2)", "lam": "λ_k", "kkt": "𝒦", "distance": "‖v − v*‖"}
    rows = [
        evidence.row(family, "ξ_k = ½(k+1)^{-1/2}", f"exponent of {text} in k", fits[name][family])
        for name, text in label.items()
        for family in FAMILIES
    ]
    panels = [
        (r"$\|\nabla f+\nabla(\nabla_\theta g)\,\omega_k\|$", split(curves["residual"]), -0.25, "$k^{-1/4}$"),
        (r"$\lambda_k$", split(curves["lam"]), 0.5, "$k^{1/2}$"),
    ]
    about = paragraph(__file__, "proposition")
    caption = "Lines: means over instances; bands: all of them. Dashed: the slopes that 𝒦 ∝ ξ_k and λ ∝ 1/ξ_k suggest."
    drawing = draw("proposition", "Proposition 1", caption, figures.along, k, panels)
    return Topic(Section("The stationarity condition", about, (drawing,)), claims, rows)


def _all_checks(checks: Sequence[Checks]) -> Checks:
    return Checks(
        sum(c.steps for c in checks),
        sum(c.active for c in checks),
        sum(c.tiny for c in checks),
        max(c.error for c in checks),
        min(c.slack for c in checks),
        max(c.equality for c in checks),
    )
