"""Which runs the toy study consists of."""

from dataclasses import replace

from bome_studies.study import Preset
from bome_studies.toys.trials import Form, Trial

COMPARED = ("bome", "bsg1", "bvfsm", "penalty")
"""The methods that the paper compares on all toys."""

GRID = (0.001, 0.01, 0.1)
"""The values of the coefficients of BVFSM and Penalty that the paper searches."""

STEP_SIZES = (0.01, 0.05, 0.1, 0.5)
"""ξ = α on the minimax problem, from the paper's set."""

HORIZON = 25
"""Steps times step size in the runs of several step sizes."""

TS, ETAS = (1, 10, 100), (0.1, 0.5, 0.9)
"""T and η of the ablations."""

FORMS: tuple[Form, ...] = ("published", "default")

ABLATED: dict[str, Form] = {"code": "published", "paper": "default"}
"""The form of BOME in the ablations, by variant of the task."""

RESCALED = 0.1
"""The factor the authors' code has on f of the coreset problem, applied to the variant as printed."""


def trials(preset: Preset) -> list[Trial]:
    """All runs of the study, the long ones first."""
    runs = [*_coreset(preset), *_coreset_ablations(preset), *_minimax(), *_lls(preset), *_grids(preset)]
    if preset == "smoke":
        return [_shortened(trial) for trial in runs]
    return sorted(runs, key=_cost, reverse=True)


def _coreset(preset: Preset) -> list[Trial]:
    """Three starts for each method. "rescaled" is the printed problem with the code's factor 0.1 on f.

    The reference end points are of 5000 steps with the published forms; the other runs are shorter in preset quick.
    """
    cases: tuple[tuple[str, str, float, Form], ...] = (
        ("code", "code", 1.0, "published"),
        ("rescaled", "paper", RESCALED, "published"),
        ("code", "code", 1.0, "default"),
        ("paper", "paper", 1.0, "default"),
    )
    runs = []
    for label, variant, factor, form in cases:
        for method in COMPARED:
            steps = 5000 if form == "published" or preset == "paper" or method == "bome" else 1000
            # Penalty, with second-order products, cannot run as a batch of starts.
            short = preset == "quick" and method == "penalty" and (label, form) != ("code", "published")
            starts = ("a",) if short else ("a", "b", "c")
            name = f"coreset-{label}-{method}-{form}"
            runs.append(Trial(name, "coreset", variant, method, form, steps, starts, factor))
    return runs


def _coreset_ablations(preset: Preset) -> list[Trial]:
    """BOME with other T and η from the first start. The code's T = 1 uses α = 0.1."""
    runs = []
    for variant, form in ABLATED.items():
        for t in TS:
            steps = 5000 if preset == "paper" or t == 1 else 2000
            alpha = 0.1 if variant == "code" and t == 1 else None
            name = f"coreset-{variant}-T{t}"
            runs.append(Trial(name, "coreset", variant, "bome", form, steps, inner_steps=t, inner_lr=alpha))
        runs += [
            Trial(f"coreset-{variant}-eta{eta}", "coreset", variant, "bome", form, steps, coefficients=(("eta", eta),))
            for eta in ETAS
            if eta != 0.5
        ]
    return runs


def _minimax() -> list[Trial]:
    runs = []
    for variant in ("code", "paper"):
        for form in FORMS:
            for method in COMPARED:
                name = f"minimax-{variant}-{method}-{form}"
                runs.append(Trial(name, "minimax", variant, method, form, steps=200, rows=200))
            runs.append(Trial(f"minimax-{variant}-ogda-{form}", "minimax", variant, "ogda", form, steps=2000))
        runs.append(Trial(f"minimax-{variant}-gda-default", "minimax", variant, "gda", "default", steps=2000, rows=500))
        runs += _minimax_ablations(variant, ABLATED[variant])
    return runs + [
        Trial(f"minimax-code-{method}-lr{lr}", "minimax", "code", method, "published", round(HORIZON / lr), lr=lr)
        for lr in STEP_SIZES
        for method in COMPARED
    ]


def _minimax_ablations(variant: str, form: Form) -> list[Trial]:
    """BOME with other T and η."""
    runs = [
        Trial(f"minimax-{variant}-T{t}", "minimax", variant, "bome", form, 2000 if t == 1 else 500, inner_steps=t)
        for t in TS
    ]
    return runs + [
        Trial(f"minimax-{variant}-eta{eta}", "minimax", variant, "bome", form, 500, coefficients=(("eta", eta),))
        for eta in ETAS
        if eta != 0.5
    ]


def _lls(preset: Preset) -> list[Trial]:
    """As coded (T = 1); as coded with the paper's T = 10; with the misprint corrected; and as printed."""
    many = 2000 if preset == "paper" else 500
    runs = []
    for method in COMPARED:
        runs += [Trial(f"lls-code-{method}-{form}", "lls", "code", method, form, 2000, rows=500) for form in FORMS]
        for label, variant in (("code10", "code"), ("corrected", "corrected"), ("paper", "paper")):
            name = f"lls-{label}-{method}-published"
            runs.append(Trial(name, "lls", variant, method, "published", many, inner_steps=10))
    return runs


def _grids(preset: Preset) -> list[Trial]:
    """The end points for all coefficients; ε of Penalty is varied in preset paper only."""
    runs = []
    for task, steps in (
        ("coreset", 5000 if preset == "paper" else 1000),
        ("minimax", 200),
        ("lls", 2000 if preset == "paper" else 1000),
    ):
        for a in GRID:
            for b in GRID:
                pair = (("c_z", a), ("c_ln", b))
                name = f"grid-{task}-bvfsm-{a}-{b}"
                runs.append(Trial(name, task, "code", "bvfsm", "published", steps, coefficients=pair, rows=1))
                for epsilon in GRID if preset == "paper" else (None,):
                    more = () if epsilon is None else (("epsilon", epsilon),)
                    name = f"grid-{task}-penalty-{a}-{b}" + ("" if epsilon is None else f"-{epsilon}")
                    both = (("lam", a), ("gamma", b), *more)
                    runs.append(Trial(name, task, "code", "penalty", "published", steps, coefficients=both, rows=1))
    return runs


def _shortened(trial: Trial) -> Trial:
    """A few steps, to see that everything works."""
    return replace(trial, steps=6, inner_steps=min(trial.inner_steps or 2, 3), compiled=False)


def _cost(trial: Trial) -> float:
    """About how long a trial takes, in any unit."""
    each = {"bome": 1.0, "bsg1": 0.8, "bvfsm": 2.0, "penalty": 2.3 * len(trial.starts)}.get(trial.method, 0.2)
    return each * trial.steps * (trial.inner_steps or 10 if trial.task != "lls" else trial.inner_steps or 1)
