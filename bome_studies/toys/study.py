"""The toy problems of the paper: every panel of its figures, and every claim it makes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bome.reports.figures import Drawing
from bome_studies.study import Findings, Preset, Report, Row, Section
from bome_studies.toys import claims, figures
from bome_studies.toys.protocol import COMPARED, ETAS, HORIZON, STEP_SIZES, TS, trials
from bome_studies.toys.trials import Outcome, Trace, Trial, carry_out

ABOUT = (
    "The paper tests its method on three problems with known solutions: a coreset problem, a bilinear minimax game, "
    "and a problem whose inner solution is not unique (it lacks the lower-level singleton, LLS). Each is run as the "
    "authors' code has it and as the paper prints it, with the methods as the authors ran them (“published”) and in "
    "their correct form (“default”). Beside each claim stands whether it holds here."
)

NOTES = (
    "Variant “code” has the constants of the authors' code, “paper” those printed. On the coreset problem the two "
    "differ in a data point, in the factor on f (0.1 or 1) and in one start; “rescaled” is the printed problem with f "
    "times 0.1.",
    "q̂ is measured alike for all methods: how much T plain gradient steps from θ decrease g. This probe is counted "
    "neither in time nor in evaluations.",
    "A gradient-equivalent is one evaluation of f or g with its gradient; a Hessian-vector or cross product counts as "
    "two.",
    "A method reaches the optimum of the coreset problem if it ends within 0.05 of it, the saddle point if ‖(v, θ)‖ is "
    "at most 0.5 at the end (5.66 at the start), and the LLS solution if it ends within 0.01 of it. All runs are "
    "deterministic; means and standard errors are over starts. Where a run still came nearer in its second half, by "
    "more than 5 %, it cannot be said that it misses the optimum.",
    "In preset quick, coreset runs other than those of BOME and of the reference end points have 1,000 steps in place "
    "of 5,000 (ablations 2,000 but for T = 1), Penalty runs from the first start only unless published on variant "
    "code, and its grid leaves ε as published.",
)

LOW_NOTE = "Preset smoke takes a few steps only: it shows that everything works, and says nothing of the claims."


class Toys:
    """The toy experiment."""

    name = "toys"

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; trials that are finished in `folder` are read, not run again."""
        made = trials(preset)
        outcomes = carry_out(made, folder, report, workers)
        return Findings(
            title="The toy problems of the paper",
            about=ABOUT,
            sections=(_coreset(outcomes), _minimax(outcomes), _lls(outcomes), _grids(made, outcomes)),
            claims=claims.claims(preset, made, outcomes),
            rows=tuple(_rows(preset, made, outcomes)),
            notes=(LOW_NOTE, *NOTES) if preset == "smoke" else NOTES,
        )


TOYS = Toys()


def _coreset(outcomes: Mapping[str, Outcome]) -> Section:
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
            figures.draw(
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
            figures.draw(
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
            figures.draw(
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
    about = (
        "min c‖θ − x₀‖² where θ is the mean of four points with weights softmax(v): the point of their hull nearest to "
        "x₀."
    )
    return Section("Coreset", about, tuple(drawings))


def _minimax(outcomes: Mapping[str, Outcome]) -> Section:
    drawings = []
    for variant, form in (("code", "published"), ("paper", "published"), ("paper", "default")):
        curves = {method: outcomes[f"minimax-{variant}-{method}-{form}"]["a"] for method in (*COMPARED, "ogda")}
        curves["gda"] = outcomes[f"minimax-{variant}-gda-default"]["a"]
        box = " (v and θ are kept in [−10, 10])" if variant == "code" else " (no bounds)"
        drawings.append(
            figures.draw(
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
            figures.draw(
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
            figures.draw(
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
            figures.draw(
                f"minimax-ablation-{variant}",
                f"BOME with other T and η on the minimax problem, variant {variant}",
                "All settings converge; the rates differ, as the eigenvalues of the bilinear step predict.",
                figures.saddle_curves,
                groups,
            )
        )
    drawings.append(_step_sizes(outcomes))
    about = "min over v of max over θ of vθ, as a bilevel problem: f = vθ and g = −vθ. The saddle point is (0, 0)."
    return Section("Minimax", about, tuple(drawings))


def _step_sizes(outcomes: Mapping[str, Outcome]) -> Drawing:
    curves = {f"ξ = α = {lr:g}": outcomes[f"minimax-code-bome-lr{lr}"]["a"] for lr in STEP_SIZES}
    ends = {
        method: {lr: claims.radius(outcomes[f"minimax-code-{method}-lr{lr}"]["a"])[-1] for lr in STEP_SIZES}
        for method in COMPARED
    }
    scaled = {f"ξ = α = {lr:g}": lr for lr in STEP_SIZES}
    return figures.draw(
        "minimax-step-sizes",
        "Step sizes on the minimax problem",
        f"{HORIZON}/ξ steps each, variant code, published forms. Left: the rate per ξ depends on αT, as α = ξ.",
        figures.step_sizes,
        ends,
        curves,
        scaled,
    )


def _lls(outcomes: Mapping[str, Outcome]) -> Section:
    drawings = []
    axes: tuple[tuple[str, figures.Axis, str], ...] = (
        ("published", "seconds", "CPU time of the steps alone"),
        ("published", "units", "gradient-equivalents"),
        ("default", "units", "gradient-equivalents"),
    )
    for form, axis, what in axes:
        curves = {method: outcomes[f"lls-code-{method}-{form}"]["a"] for method in COMPARED}
        drawings.append(
            figures.draw(
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
        figures.draw(
            "lls-forms",
            "Other forms of the LLS problem",
            "T = 10 as the paper says, published forms of the methods. As printed every v is optimal, so that nothing "
            "draws v to 1.",
            figures.lls_distances,
            groups,
        )
    )
    about = (
        "g(v, ·) is smallest wherever θ₁ = v, whatever θ₂ is; f chooses among these. The solution is v = 1, θ = (1, 1)."
    )
    return Section("Degenerate inner problem (LLS)", about, tuple(drawings))


def _grids(made: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> Section:
    ends = {
        method: {pair: trace.theta[-1] for pair, trace in claims.grid("coreset", method, made, outcomes).items()}
        for method in ("bvfsm", "penalty")
    }
    tables = {
        method: {task: claims.best_by_pair(task, method, made, outcomes) for task in ("coreset", "minimax", "lls")}
        for method in ("bvfsm", "penalty")
    }
    names = {"bvfsm": (r"$c_z$", r"$c_{\ln}$"), "penalty": (r"$\lambda_0$", r"$\gamma_0$")}
    about = (
        "The paper searches the coefficients of BVFSM and Penalty in {0.001, 0.01, 0.1}. Here are all end points: on "
        "the coreset problem they lie far apart, so that the answer is that of the coefficients."
    )
    drawings = (
        figures.draw(
            "grid-end-points",
            "End points of BVFSM and Penalty on the coreset problem",
            "Variant code, published forms, from the first start; one point for each pair of coefficients.",
            figures.end_points,
            ends,
            names,
        ),
        figures.draw(
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


def _by_t(task: str, variant: str, outcomes: Mapping[str, Outcome]) -> dict[str, Trace]:
    return {f"T = {t}": outcomes[f"{task}-{variant}-T{t}"]["a"] for t in TS}


def _by_eta(task: str, variant: str, outcomes: Mapping[str, Outcome]) -> dict[str, Trace]:
    names = {eta: "T10" if eta == 0.5 else f"eta{eta}" for eta in ETAS}
    return {f"η = {eta:g}": outcomes[f"{task}-{variant}-{name}"]["a"] for eta, name in names.items()}


def _rows(preset: Preset, made: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> list[Row]:
    rows = []
    for trial in made:
        traces = [*outcomes[trial.name].values()]
        measured = {
            "f": [trace.f[-1] for trace in traces],
            "q": [trace.q[-1] for trace in traces],
            "distance_to_optimum": [claims.distance(trial.task, trace) for trace in traces],
            "gradient_equivalents": [trace.units[-1] for trace in traces],
        }
        for metric, values in measured.items():
            mean, se = claims.mean_and_error(values)
            rows.append(
                Row(
                    trial.task, trial.method, claims.variant_of(trial), metric, mean, se, len(values), preset,
                    f"bome reproduce toys --preset {preset}",
                )
            )  # fmt: skip
    return rows
