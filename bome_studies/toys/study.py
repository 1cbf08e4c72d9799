"""The toy problems of the paper: every panel of its figures, and every claim it makes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bome._typing import Report
from bome.reports.figures import Drawing
from bome.runs.choice import mean_and_error
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.page import command
from bome_studies.parts import results_of
from bome_studies.study import SMOKE_NOTE, Findings, Preset, Row, Section, findings_of
from bome_studies.toys import claims, figures
from bome_studies.toys.protocol import COMPARED, ETAS, HORIZON, STEP_SIZES, TS, trials
from bome_studies.toys.trials import Trace, Traces, Trial, perform, restored


class Toys:
    """The toy study."""

    name = "toys"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        planned = trials(preset)
        outcomes = results_of(planned, perform, folder, report, workers, restored)
        return findings_of(
            __file__,
            "The toy problems of the paper",
            preset,
            (_coreset(outcomes), _minimax(outcomes), _lls(outcomes), _grids(planned, outcomes)),
            claims.claims(planned, outcomes),
            _rows(preset, planned, outcomes),
            before=[SMOKE_NOTE] if preset == "smoke" else [],
        )


TOYS = Toys()


def _coreset(outcomes: Mapping[str, Traces]) -> Section:
    drawings = []
    for label, form, what in (
        ("code", "published", "The authors' constants and their forms of the methods"),
        ("rescaled", "published", "The printed data points with the factor 0.1 on f, published forms"),
        ("code", "default", "The authors' constants, correct forms of the methods"),
        ("paper", "default", "The problem as printed (factor 1 on f), correct forms of the methods"),
    ):
        variant = "code" if label == "code" else "paper"
        paths = {method: outcomes[f"coreset-{label}-{method}-{form}"] for method in COMPARED}
        drawings.append(
            draw(
                f"coreset-paths-{label}-{form}",
                "Paths of θ on the coreset problem",
                f"{what}. Shaded: the convex hull, in which θ must lie; blue, dashed: θ^(T), what θ would be after T "
                "inner steps.",
                figures.coreset_paths,
                paths,
                variant,
            )
        )
    for label, form, f_star in (("code", "published", 0.72), ("paper", "default", 9.0)):
        curves = {method: outcomes[f"coreset-{label}-{method}-{form}"]["a"] for method in COMPARED}
        drawings.append(
            draw(
                f"coreset-losses-{label}-{form}",
                f"f and q̂ on the coreset problem, variant {label}",
                f"From the first start, {form} forms. Dashed: f at the optimum; a method may lie below it only where "
                "the gap q̂ is not 0.",
                figures.losses,
                curves,
                ("steps", "units"),
                f_star,
            )
        )
    for variant in ("code", "paper"):
        groups = (
            ("T, at η = 0.5", _by_t("coreset", variant, outcomes)),
            ("η, at T = 10", _by_eta("coreset", variant, outcomes)),
        )
        drawings.append(
            draw(
                f"coreset-ablation-{variant}",
                f"BOME with other T and η on the coreset problem, variant {variant}",
                "From the first start. The paths hardly differ; the floor of the distance is that of the constant step "
                "size.",
                figures.ablation_paths,
                groups,
                variant,
                r"distance to $\theta^*$",
            )
        )
    about = paragraph(__file__, "coreset")
    return Section("Coreset", about, tuple(drawings))


def _minimax(outcomes: Mapping[str, Traces]) -> Section:
    drawings = []
    for variant, form in (("code", "published"), ("paper", "published"), ("paper", "default")):
        curves = {method: outcomes[f"minimax-{variant}-{method}-{form}"]["a"] for method in (*COMPARED, "ogda")}
        curves["gda"] = outcomes[f"minimax-{variant}-gda-default"]["a"]
        box = " (v and θ are kept in [−10, 10])" if variant == "code" else " (no bounds)"
        drawings.append(
            draw(
                f"minimax-paths-{variant}-{form}",
                f"Paths on the minimax problem, variant {variant}, {form} forms",
                f"The saddle point is to be found{box}. Gradient descent-ascent (GDA) spirals outwards.",
                figures.minimax_paths,
                curves,
                10.0,
            )
        )
        few = {method: trace for method, trace in curves.items() if method in COMPARED}
        drawings.append(
            draw(
                f"minimax-losses-{variant}-{form}",
                f"f and q̂ on the minimax problem, variant {variant}, {form} forms",
                "f = vθ is 0 at the saddle point; its axis is logarithmic beyond ±1. The look-ahead of q̂ is unbounded.",
                figures.losses,
                few,
                ("steps", "units"),
                0.0,
                1.0,
            )
        )
        drawings.append(
            draw(
                f"minimax-distance-{variant}-{form}",
                f"Distance to the saddle point, variant {variant}, {form} forms",
                "Right: over the 2,000 steps that Optimistic GD and gradient descent-ascent have.",
                figures.saddle_curves,
                [("bilevel methods", few), ("all", curves)],
            )
        )
    for variant in ("code", "paper"):
        groups = [
            ("T, at η = 0.5", _by_t("minimax", variant, outcomes)),
            ("η, at T = 10", _by_eta("minimax", variant, outcomes)),
        ]
        drawings.append(
            draw(
                f"minimax-ablation-{variant}",
                f"BOME with other T and η on the minimax problem, variant {variant}",
                "All settings converge; the rates differ, as the eigenvalues of the bilinear step predict.",
                figures.saddle_curves,
                groups,
            )
        )
    drawings.append(_step_sizes(outcomes))
    about = paragraph(__file__, "minimax")
    return Section("Minimax", about, tuple(drawings))


def _step_sizes(outcomes: Mapping[str, Traces]) -> Drawing:
    curves = {f"ξ = α = {lr:g}": outcomes[f"minimax-code-bome-lr{lr}"]["a"] for lr in STEP_SIZES}
    ends = {
        method: {lr: claims.radius(outcomes[f"minimax-code-{method}-lr{lr}"]["a"])[-1] for lr in STEP_SIZES}
        for method in COMPARED
    }
    scaled = {f"ξ = α = {lr:g}": lr for lr in STEP_SIZES}
    return draw(
        "minimax-step-sizes",
        "Step sizes on the minimax problem",
        f"{HORIZON}/ξ steps each, variant code, published forms. Left: the rate per ξ depends on αT, as α = ξ.",
        figures.step_sizes,
        ends,
        curves,
        scaled,
    )


def _lls(outcomes: Mapping[str, Traces]) -> Section:
    drawings = []
    axes: tuple[tuple[str, figures.Axis, str], ...] = (
        ("published", "seconds", "CPU time of the steps alone"),
        ("published", "units", "gradient-equivalents"),
        ("default", "units", "gradient-equivalents"),
    )
    for form, axis, what in axes:
        curves = {method: outcomes[f"lls-code-{method}-{form}"]["a"] for method in COMPARED}
        drawings.append(
            draw(
                f"lls-{form}-{axis}",
                f"The four panels of the LLS problem over {what}, {form} forms",
                "Variant code, T = 1, 2,000 steps. BSG-1 never leaves its start, where f_v = 0 and g_θ = 0.",
                figures.lls_panels,
                curves,
                axis,
                -0.5,
            )
        )
    groups = [
        (title, {method: outcomes[f"lls-{label}-{method}-published"]["a"] for method in COMPARED})
        for label, title in (
            ("code10", "as coded, T = 10"),
            ("corrected", "misprint corrected"),
            ("paper", "as printed"),
        )
    ]
    drawings.append(
        draw(
            "lls-forms",
            "Other forms of the LLS problem",
            "T = 10 as the paper says, published forms of the methods. As printed every v is optimal, so that nothing "
            "draws v to 1.",
            figures.lls_distances,
            groups,
        )
    )
    about = paragraph(__file__, "lls")
    return Section("Degenerate inner problem (LLS)", about, tuple(drawings))


def _grids(planned: Sequence[Trial], outcomes: Mapping[str, Traces]) -> Section:
    ends = {
        method: {pair: trace.theta[-1] for pair, trace in claims.grid("coreset", method, planned, outcomes).items()}
        for method in ("bvfsm", "penalty")
    }
    tables = {
        method: {task: claims.best_by_pair(task, method, planned, outcomes) for task in ("coreset", "minimax", "lls")}
        for method in ("bvfsm", "penalty")
    }
    names = {"bvfsm": (r"$c_z$", r"$c_{\ln}$"), "penalty": (r"$\lambda_0$", r"$\gamma_0$")}
    about = paragraph(__file__, "coefficients")
    drawings = (
        draw(
            "grid-end-points",
            "End points of BVFSM and Penalty on the coreset problem",
            "Variant code, published forms, from the first start; one point for each pair of coefficients.",
            figures.end_points,
            ends,
            names,
        ),
        draw(
            "grid-distances",
            "Distance to the optimum at the end",
            "For each pair of coefficients, variant code, published forms: θ to θ* on the coreset problem, ‖(v, θ)‖ on "
            "the minimax problem, (v, θ) to (1, (1, 1)) on the LLS problem.",
            figures.grid_tables,
            tables,
            names,
        ),
    )
    return Section("Coefficients of BVFSM and Penalty", about, drawings)


def _by_t(task: str, variant: str, outcomes: Mapping[str, Traces]) -> dict[str, Trace]:
    return {f"T = {t}": outcomes[f"{task}-{variant}-T{t}"]["a"] for t in TS}


def _by_eta(task: str, variant: str, outcomes: Mapping[str, Traces]) -> dict[str, Trace]:
    names = {eta: "T10" if eta == 0.5 else f"eta{eta}" for eta in ETAS}
    return {f"η = {eta:g}": outcomes[f"{task}-{variant}-{name}"]["a"] for eta, name in names.items()}


def _rows(preset: Preset, planned: Sequence[Trial], outcomes: Mapping[str, Traces]) -> list[Row]:
    rows = []
    for trial in planned:
        traces = [*outcomes[trial.name].values()]
        numbers = {
            "f": [trace.f[-1] for trace in traces],
            "q": [trace.q[-1] for trace in traces],
            "distance_to_optimum": [claims.distance(trial.task, trace) for trace in traces],
            "gradient_equivalents": [trace.units[-1] for trace in traces],
        }
        for metric, values in numbers.items():
            mean, se = mean_and_error(values)
            rows.append(
                Row(
                    trial.task, trial.method, claims.variant_of(trial), metric, mean, se, len(values), preset,
                    command("toys", preset),
                )
            )  # fmt: skip
    return rows
