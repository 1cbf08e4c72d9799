"""Floors and rates: 𝒦 with constant step sizes, and with step sizes chosen for the number of steps."""

from typing import NamedTuple

from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.study import Claim, Row, Section
from bome_studies.theory import figures as figures
from bome_studies.theory.evidence import (
    FAMILIES,
    KINDS,
    Evidence,
    Topic,
    by_family,
    exponents,
    lines_of,
    slope_claim,
    split,
)
from bome_studies.theory.figures import COLOUR, Line, Panel
from bome_studies.theory.fits import minus, power, spread


def floors(evidence: Evidence) -> Topic:
    """𝒦, q, ‖v − v*‖ and λ against ξ."""
    at, rates, _ = evidence.where("floors", "rate")
    average = {name: values[at] for name, values in evidence.outcomes["floors"].average.items()}
    names = {"kkt": "𝒦", "q": "q", "distance": "‖v − v*‖", "lam": "λ"}
    fits = {name: by_family(average[name], lambda y: power(rates, y)) for name in names}
    level = by_family(average["lam"] * rates[:, None], lambda y: spread(y[-1]))

    def panel(name: str, symbol: str, bound: tuple[float, str] | None) -> Panel:
        return Panel(r"step size $\xi$", symbol, rates, lines_of(average[name], fits[name]), bound)

    main = [
        panel("kkt", r"$\mathcal{K}$, mean of the last 20 %", (0.5, r"bound $\xi^{1/2}$")),
        panel("q", "$q$, mean of the last 20 %", (1.0, r"bound $\xi$")),
    ]
    more = [
        panel("distance", r"$\|v-v^*\|$, mean of the last 20 %", None),
        panel("lam", r"$\lambda$, mean of the last 20 %", None),
    ]
    claims = [
        slope_claim("with constant ξ and many steps, 𝒦 = O(ξ^{1/2})", "Theorem 1", family, fits["kkt"][family], 0.5)
        for family in FAMILIES
    ]
    claims += [
        slope_claim("q falls to a floor Δ = O(ξ)", "lemma on the decay of q", family, fits["q"][family], 1.0)
        for family in FAMILIES
    ]
    rows = [
        evidence.row(family, "constant ξ", f"exponent of {label} in ξ", fits[name][family])
        for name, label in names.items()
        for family in FAMILIES
    ]
    rows += [evidence.row(family, "constant ξ", f"λξ at ξ = {rates[-1]:g}", level[family]) for family in FAMILIES]
    about = paragraph(
        __file__, "floors", kkt=fits["kkt"]["quadratic"], q=fits["q"]["quadratic"], **level, rate=f"{rates[-1]:g}"
    )
    drawings = (
        draw(
            "stationarity_and_gap_against_step_size",
            "𝒦 and q against ξ",
            "Points: means over instances with standard errors. Dashed: the bound; only its slope has a meaning.",
            figures.powers,
            main,
        ),
        draw(
            "distance_and_multiplier_against_step_size",
            "‖v − v*‖ and λ against ξ",
            "The distance to the solution falls like ξ, the multiplier grows like 1/ξ.",
            figures.powers,
            more,
        ),
    )
    return Topic(Section("The floor of constant step sizes", about, drawings), claims, rows)


class Schedule(NamedTuple):
    """A step size chosen for K steps, with the rate that the paper proves for it."""

    use: str
    bound: float
    rate: str
    plan: str
    title: str
    label: str


SCHEDULES = (
    Schedule("quarter", 1 / 4, "K^{-1/4}", "ξ = K^{-1/2}, q₀ = 1", r"$\xi=K^{-1/2}$, $q_0=1$", r"bound $K^{-1/4}$"),
    Schedule(
        "third", 1 / 3, "K^{-1/3}", "ξ = K^{-2/3}, q₀ = 1/(ξK)", r"$\xi=K^{-2/3}$, $q_0=1/(\xi K)$", r"bound $K^{-1/3}$"
    ),
)


def schedules(evidence: Evidence) -> Topic:
    """The K^{-1/4} and K^{-1/3} schedules."""
    claims: list[Claim] = []
    rows: list[Row] = []
    panels = []
    for schedule in SCHEDULES:
        counts = evidence.where("floors", schedule.use)[2]
        ends = {kind: split(values) for kind, values in evidence.ends("floors", schedule.use).items()}
        late = len(counts) // 2
        parts = {"last": late, "min": 0, "mean": late}
        lines = []
        for family in FAMILIES:
            mine = {kind: ends[kind][family] for kind in KINDS}
            fits = {kind: power(counts[i:], mine[kind][i:]) for kind, i in parts.items()}
            lines.append(Line(rf"$\mathcal{{K}}_K$, {family}", COLOUR[family], mine["last"], fits["last"]))
            lines.append(Line(f"min, {family}", COLOUR[family], mine["min"], fits["min"], "s", filled=False))
            text = f"min_k 𝒦 = O({schedule.rate}) with {schedule.plan}"
            where = "remark on Theorem 1"
            words = exponents(fits, "𝒦") + f" (K ≥ {counts[late]:.0f})"
            claims.append(slope_claim(text, where, family, minus(fits["min"]), schedule.bound, words))
            rows += [
                evidence.row(
                    family, f"{schedule.plan}, K ≥ {counts[i]:.0f}", f"exponent of {KINDS[kind]} 𝒦 in K", fits[kind]
                )
                for kind, i in parts.items()
            ]
        bound = (-schedule.bound, schedule.label)
        panels.append(Panel("outer steps $K$", r"$\mathcal{K}$", counts, lines, bound, schedule.title))
    about = paragraph(__file__, "schedules")
    caption = "Filled: 𝒦 at the last step. Open: the least 𝒦 of the run. Dashed: the slope of the bound."
    drawing = draw("schedules", "The two schedules", caption, figures.powers, panels)
    return Topic(Section("Rates in the number of steps", about, (drawing,)), claims, rows)
