"""What the paper says of the toys, and what is found."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from bome_studies.study import Claim
from bome_studies.toys.protocol import ETAS, GRID, HORIZON, STEP_SIZES, TS
from bome_studies.toys.trials import Trace, Traces, Trial

Outcomes = Mapping[str, Traces]

NEAR = {"coreset": 0.05, "minimax": 0.5, "lls": 0.01}
"""At most how far from the optimum a run ends that has reached it."""

A1, A2, A3 = "appendix A.1", "appendix A.2", "appendix A.3"
GAME, SEEN = "Toy Mini-Max Game", "Observations"
CODE = "the authors' code"

LABELS = {"bome": "BOME", "bsg1": "BSG-1", "bvfsm": "BVFSM", "penalty": "Penalty"}
BASELINES = ("bsg1", "bvfsm", "penalty")


def claims(trials: Sequence[Trial], outcomes: Outcomes) -> Iterable[Claim]:
    """All claims in the order of the report."""
    yield from _coreset(outcomes)
    yield from _minimax(outcomes)
    yield from _lls(outcomes)
    yield from _coefficients(trials, outcomes)
    yield from _all_toys(outcomes)
    yield from _references(outcomes)


def _coreset(outcomes: Outcomes) -> Iterable[Claim]:
    for label, form in (("code", "published"), ("rescaled", "published"), ("paper", "default")):
        away = [trace.distance[-1] for trace in outcomes[f"coreset-{label}-bome-{form}"].values()]
        yield Claim(
            "BOME converges to the optimal solution regardless of θ₀",
            A1,
            f"{label}, {form}",
            f"ends {_range(away)} from θ* from {_starts(away)}; a constant step leaves a floor of order ξc",
            max(away) <= NEAR["coreset"],
        )
    for method in BASELINES:
        for label, form in (
            ("code", "published"),
            ("rescaled", "published"),
            ("code", "default"),
            ("paper", "default"),
        ):
            outcome = outcomes[f"coreset-{label}-{method}-{form}"]
            away = [trace.distance[-1] for trace in outcome.values()]
            last = next(iter(outcome.values()))
            yield Claim(
                f"{LABELS[method]} converges to a non-optimal point",
                A1,
                f"{label}, {form}",
                f"ends {_range(away)} from θ*, at {_point(last.theta[-1])} from the first start"
                + _trend("coreset", outcome.values()),
                _missed("coreset", outcome.values()),
            )
    for variant in ("code", "paper"):
        names = {**{f"T={t}": f"T{t}" for t in TS}, **{f"η={eta:g}": f"eta{eta}" for eta in ETAS if eta != 0.5}}
        ends = {text: outcomes[f"coreset-{variant}-{name}"]["a"] for text, name in names.items()}
        spread = _spread([trace.theta[-1] for trace in ends.values()])
        yield Claim(
            "BOME is robust to T and η: almost identical results",
            SEEN,
            variant,
            f"end points at most {spread:.2g} apart; distance " + _each({k: t.distance[-1] for k, t in ends.items()}),
            spread <= 2 * NEAR["coreset"],
        )


def _minimax(outcomes: Outcomes) -> Iterable[Claim]:
    for variant in ("paper", "code"):
        trace = outcomes[f"minimax-{variant}-gda-default"]["a"]
        first, last = radius(trace)[0], radius(trace)[-1]
        held = " (held by the box)" if variant == "code" else f"; theory {first * 1.0025 ** (trace.steps[-1] / 2):.3g}"
        yield Claim(
            "Gradient descent-ascent diverges",
            GAME,
            variant,
            f"‖(v, θ)‖ from {first:.3g} to {last:.3g} in {trace.steps[-1]:,} steps{held}",
            last > 1.5 * first,
        )
    for variant, form in (("code", "published"), ("paper", "published"), ("paper", "default")):
        trace = outcomes[f"minimax-{variant}-bome-{form}"]["a"]
        yield Claim(
            "BOME works on the minimax problem",
            GAME,
            f"{variant}, {form}",
            f"‖(v, θ)‖ = {radius(trace)[-1]:.2g} after {trace.steps[-1]:,} steps",
            radius(trace)[-1] <= NEAR["minimax"],
        )
    for form in ("published", "default"):
        trace = outcomes[f"minimax-paper-ogda-{form}"]["a"]
        yield Claim(
            "Optimistic gradient descent is a standard alternative",
            GAME,
            f"paper, {form}",
            f"‖(v, θ)‖ = {radius(trace)[-1]:.2g} after {trace.steps[-1]:,} steps",
            radius(trace)[-1] <= NEAR["minimax"],
        )
    for method in BASELINES:
        for variant, form in (("code", "published"), ("paper", "published"), ("paper", "default")):
            trace = outcomes[f"minimax-{variant}-{method}-{form}"]["a"]
            yield Claim(
                f"{LABELS[method]} fails on the minimax problem",
                GAME,
                f"{variant}, {form}",
                f"ends at v = {trace.v[-1][0]:.3g}, θ = {trace.theta[-1][0]:.3g}"
                + (", diverged" if trace.diverged else ""),
                not radius(trace)[-1] <= NEAR["minimax"],
            )
    for variant in ("code", "paper"):
        names = {**{f"T={t}": f"T{t}" for t in TS}, **{f"η={eta:g}": f"eta{eta}" for eta in ETAS if eta != 0.5}}
        ends = {text: outcomes[f"minimax-{variant}-{name}"]["a"] for text, name in names.items()}
        yield Claim(
            "BOME is robust to T and η: it converges with all of them",
            SEEN,
            variant,
            "‖(v, θ)‖ at the end " + _each({k: radius(t)[-1] for k, t in ends.items()}) + "; the speed differs",
            all(radius(trace)[-1] <= NEAR["minimax"] for trace in ends.values()),
        )
    yield from _step_sizes(outcomes)


def _step_sizes(outcomes: Outcomes) -> Iterable[Claim]:
    for method in ("bome", *BASELINES):
        ends = {lr: radius(outcomes[f"minimax-code-{method}-lr{lr}"]["a"])[-1] for lr in STEP_SIZES}
        works = [end <= NEAR["minimax"] for end in ends.values()]
        yield Claim(
            f"Step sizes make no significant difference to {LABELS[method]} on the minimax problem",
            A2,
            "code, published",
            f"‖(v, θ)‖ after {HORIZON}/ξ steps " + _each({f"ξ={lr:g}": end for lr, end in ends.items()}),
            all(works) if method == "bome" else not any(works),
        )


def _lls(outcomes: Outcomes) -> Iterable[Claim]:
    cases = (
        ("code", "published", "code, published, T = 1"),
        ("code", "default", "code, default, T = 1"),
        ("code10", "published", "code, published, T = 10"),
        ("corrected", "published", "misprint corrected, T = 10"),
        ("paper", "published", "as printed, T = 10"),
    )
    for label, form, text in cases:
        trace = outcomes[f"lls-{label}-bome-{form}"]["a"]
        yield Claim(
            "BOME does not need the lower-level singleton: it reaches v = 1, θ = (1, 1)",
            A3,
            text,
            f"ends {distance('lls', trace):.2g} away, at v = {trace.v[-1][0]:.4g}, f = {trace.f[-1]:.2g}"
            + ("; as printed every v is optimal" if label == "paper" else ""),
            distance("lls", trace) <= NEAR["lls"],
        )
    for method in BASELINES:
        for label, form, text in cases[:4]:
            trace = outcomes[f"lls-{label}-{method}-{form}"]["a"]
            yield Claim(
                f"{LABELS[method]} does not solve the LLS problem",
                SEEN,
                text,
                f"ends {distance('lls', trace):.2g} away, f = {trace.f[-1]:.2g}" + _trend("lls", [trace]),
                _missed("lls", [trace]),
            )


def _coefficients(trials: Sequence[Trial], outcomes: Outcomes) -> Iterable[Claim]:
    for method in ("bvfsm", "penalty"):
        ends = [trace.theta[-1] for trace in grid("coreset", method, trials, outcomes).values()]
        yield Claim(
            f"The convergence point of {LABELS[method]} depends on its coefficients",
            A1,
            "code, published",
            f"end points up to {_spread(ends):.2g} apart over the grid {{{', '.join(map(str, GRID))}}}",
            _spread(ends) > 0.1,
        )
    for method in ("bvfsm", "penalty"):
        for task in ("coreset", "minimax", "lls"):
            cells = {
                pair: away for pair, away in best_by_pair(task, method, trials, outcomes).items() if math.isfinite(away)
            }
            pair = min(cells, key=lambda pair: cells[pair])
            names = ("c_z", "c_ln") if method == "bvfsm" else ("λ", "γ")
            yield Claim(
                f"{LABELS[method]} misses the optimum even with a grid search over its coefficients",
                SEEN,
                f"{task}, code, published",
                f"best of the grid: {cells[pair]:.2g} away, with {names[0]} = {pair[0]:g}, {names[1]} = {pair[1]:g}",
                cells[pair] > NEAR[task],
            )


def _all_toys(outcomes: Outcomes) -> Iterable[Claim]:
    runs = {task: outcomes[f"{task}-code-bome-published"]["a"] for task in ("coreset", "minimax", "lls")}
    largest = {task: max(trace.q) for task, trace in runs.items()}
    last = {task: trace.q[-1] for task, trace in runs.items()}
    yield Claim(
        "In all three toys BOME decreases q̂ to 0",
        SEEN,
        "code, published",
        ", ".join(f"{task} from {largest[task]:.2g} at most to {last[task]:.1e}" for task in runs)
        + "; the coreset's floor is of order ξ²",
        all(last[task] <= 1e-2 * largest[task] for task in runs),
    )
    for form in ("published", "default"):
        ends = {
            task: [distance(task, outcomes[f"{task}-code-{method}-{form}"]["a"]) for method in ("bome", "bvfsm")]
            for task in ("coreset", "minimax", "lls")
        }
        costs = [_per_step(outcomes[f"coreset-code-{method}-{form}"]["a"]) for method in ("bome", "bvfsm")]
        yield Claim(
            "BOME outperforms BVFSM in result and cost",
            SEEN,
            f"code, {form}",
            ", ".join(f"{task} {a:.2g} and {b:.2g} from the optimum" for task, (a, b) in ends.items())
            + f"; {costs[0]:.0f} and {costs[1]:.0f} gradient-equivalents a step at T = 10",
            all(not a >= b for a, b in ends.values()) and costs[0] < costs[1],
        )


def _references(outcomes: Outcomes) -> Iterable[Claim]:
    """The end points of the authors' code, to the digits given for them."""
    points: tuple[tuple[str, tuple[float, ...], float], ...] = (
        ("coreset-code-bome-published", (1.8167, 0.3851), 0.0003),
        ("coreset-code-bsg1-published", (2.977, 1.004), 0.002),
        ("coreset-code-bvfsm-published", (1.951, -0.178), 0.001),
        ("coreset-code-penalty-published", (2.292, -0.568), 0.001),
        ("coreset-rescaled-bome-published", (2.975, 0.985), 0.011),
        ("coreset-rescaled-bsg1-published", (2.988, 1.005), 0.002),
        ("coreset-rescaled-bvfsm-published", (2.817, -0.442), 0.001),
        ("coreset-rescaled-penalty-published", (2.931, -0.174), 0.001),
    )
    for name, expected, tolerance in points:
        theta = outcomes[name]["a"].theta[-1]
        yield _reference(name, "θ", expected, theta, tolerance)
    pairs: tuple[tuple[str, tuple[float, ...], float], ...] = (
        ("minimax-code-bsg1-published", (10.0, 4.0), 1e-3),
        ("minimax-code-bvfsm-published", (-10.0, 10.0), 1e-3),
        ("minimax-code-penalty-published", (4.0, -10.0), 1e-3),
        ("minimax-code-T10", (-3.9e-5, 1.0e-4), 1e-5),
        ("minimax-code-T1", (0.0215, -0.0376), 1e-4),
        ("minimax-code-T100", (0.0296, -4.7e-4), 1e-4),
        ("minimax-code-eta0.1", (0.048, -0.124), 1e-3),
        ("minimax-code-eta0.9", (7.7e-6, -2.2e-5), 1e-6),
    )
    for name, expected, tolerance in pairs:
        trace = outcomes[name]["a"]
        yield _reference(name, "(θ, v)", expected, (trace.theta[-1][0], trace.v[-1][0]), tolerance)
    bome = outcomes["minimax-code-bome-published"]["a"]
    yield _reference("minimax-code-bome-published", "(f, q̂)", (-7.9e-4, 1.3e-3), (bome.f[-1], bome.q[-1]), 1e-4)
    triples: tuple[tuple[str, tuple[float, ...], float], ...] = (
        ("lls-code-bome-published", (1.0, 1.0, 1.0), 1e-5),
        ("lls-code-bsg1-published", (0.0, 0.0, 0.0), 1e-9),
        ("lls-code-bvfsm-published", (0.980, -0.228, -0.234), 1e-3),
        ("lls-code-penalty-published", (0.9993, 0.9990, 0.9993), 1e-4),
    )
    for name, expected, tolerance in triples:
        trace = outcomes[name]["a"]
        yield _reference(name, "(θ, v)", expected, (*trace.theta[-1], trace.v[-1][0]), tolerance)


def _reference(name: str, what: str, expected: Sequence[float], point: Sequence[float], tolerance: float) -> Claim:
    task, rest = name.split("-", 1)
    variant, run = rest.split("-", 1)
    words = {"bome-published": "BOME", "T10": "BOME with T = 10", "T1": "BOME with T = 1", "T100": "BOME with T = 100"}
    words |= {"eta0.1": "BOME with η = 0.1", "eta0.9": "BOME with η = 0.9"}
    label = words.get(run) or LABELS[run.removesuffix("-published")]
    close = max(abs(a - b) for a, b in zip(expected, point, strict=True)) <= tolerance
    return Claim(
        f"{label} on {task} ends at {what} = {_point(expected)}", CODE, f"{variant}, published", _point(point), close
    )  # fmt: skip


def distance(task: str, trace: Trace, at: int = -1) -> float:
    """How far from the optimum a run is: from θ* on the coreset problem, the saddle point, or v = 1, θ = (1, 1)."""
    match task:
        case "minimax":
            return math.hypot(*trace.v[at], *trace.theta[at])
        case "lls":
            return math.hypot(*(x - 1 for x in (*trace.v[at], *trace.theta[at])))
        case _:
            return trace.distance[at]


def radius(trace: Trace) -> list[float]:
    """‖(v, θ)‖ along a path of the minimax problem."""
    return [math.hypot(*v, *theta) for v, theta in zip(trace.v, trace.theta, strict=True)]


def grid(task: str, method: str, trials: Sequence[Trial], outcomes: Outcomes) -> dict[tuple[float, float], Trace]:
    """The run of each pair of coefficients; of several that differ in a third one, that which ends nearest."""
    best: dict[tuple[float, float], Trace] = {}
    for trial in trials:
        if trial.name.startswith(f"grid-{task}-{method}-"):
            pair, trace = (trial.coefficients[0][1], trial.coefficients[1][1]), outcomes[trial.name]["a"]
            if pair not in best or _away(task, trace) < _away(task, best[pair]):
                best[pair] = trace
    return best


def best_by_pair(
    task: str, method: str, trials: Sequence[Trial], outcomes: Outcomes
) -> dict[tuple[float, float], float]:
    """The distance from the optimum at the end for each pair of coefficients."""
    return {pair: _away(task, trace) for pair, trace in grid(task, method, trials, outcomes).items()}


def _away(task: str, trace: Trace) -> float:
    return math.inf if trace.diverged or not math.isfinite(distance(task, trace)) else distance(task, trace)


def variant_of(trial: Trial) -> str:
    """The variant of a row: of the task, of the method, and the settings that are not theirs."""
    label = trial.variant if trial.factor == 1 else "rescaled"
    words = [label, trial.form]
    words += [f"T={trial.inner_steps}"] if trial.inner_steps is not None else []
    words += [f"lr={trial.lr:g}"] if trial.lr is not None else []
    words += [f"inner_lr={trial.inner_lr:g}"] if trial.inner_lr is not None else []
    words += [f"{name}={value:g}" for name, value in trial.coefficients]
    return " ".join([*words, f"steps={trial.steps}"])


def _missed(task: str, traces: Iterable[Trace]) -> bool | None:
    """Whether runs ended away from the optimum; None if some of them were still on their way to it."""
    traces = list(traces)
    if any(_away(task, trace) <= NEAR[task] for trace in traces):
        return False
    return None if any(_on_its_way(task, trace) for trace in traces) else True


def _trend(task: str, traces: Iterable[Trace]) -> str:
    """What to add where runs had not settled."""
    traces = list(traces)
    if any(trace.diverged for trace in traces):
        return ", diverged"
    return ", still decreasing" if any(_on_its_way(task, trace) for trace in traces) else ""


def _on_its_way(task: str, trace: Trace) -> bool:
    """Whether the second half of the run came nearer to the optimum by more than 5 %."""
    return distance(task, trace) < 0.95 * distance(task, trace, len(trace.f) // 2)


def _per_step(trace: Trace) -> float:
    return trace.units[-1] / trace.steps[-1]


def _spread(points: Sequence[Sequence[float]]) -> float:
    return max(math.dist(a, b) for a in points for b in points)


def _starts(values: Sequence[float]) -> str:
    return "the first start" if len(values) == 1 else f"all {len(values)} starts"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


def _each(values: Mapping[str, float], show: Callable[[float], str] = lambda x: f"{x:.2g}") -> str:
    return ", ".join(f"{show(value)} ({name})" for name, value in values.items())


def _point(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in values) + ")"
