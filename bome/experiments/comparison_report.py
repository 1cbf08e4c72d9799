"""What a comparison says: sections of the report, rows of `docs/results/<experiment>.json`, and claims."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bome.experiments import comparison_figures as figures
from bome.experiments.base import Claim, Preset, Row, Section
from bome.experiments.comparison import Comparison, Entry

METRICS = ("test_accuracy", "test_loss", "val2_loss", "f1", "precision", "recall")


def accuracy(number: tuple[float, float | None]) -> str:
    """Mean and standard error in words."""
    mean, error = number
    return f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}"


def chosen(entry: Entry) -> str:
    """The chosen settings in words."""
    return f"T = {entry.values['inner_steps']}, ξ_v = {entry.values['outer_lr']:g}"


def rows_of(found: Comparison, preset: Preset, command: str, extra: Sequence[str]) -> Iterator[Row]:
    """All numbers of a task."""

    def row(method: str, variant: str, metric: str, number: tuple[float, float | None], seeds: int) -> Row:
        return Row(found.task, method, variant, metric, number[0], number[1], seeds, preset, command)

    for name, seeds in found.references.items():
        for metric in seeds[0]:
            yield row("reference", name, metric, found.reference(name, metric), len(seeds))
    entries = [(entry, "selected") for entry in found.entries] + list(zip(found.extra, extra, strict=True))
    entries += [(entry, f"{name}: {label}") for name, each in found.ablations.items() for label, entry in each.items()]
    for entry, variant in entries:
        seeds_done = sum(outcome.status == "finished" for outcome in entry.outcomes)
        for metric in METRICS:
            number = entry.last(metric)
            if not math.isnan(number[0]):
                yield row(entry.method, variant, metric, number, seeds_done)
        resolved = entry.last("test_accuracy", resolved=True)
        if not math.isnan(resolved[0]):
            yield row(entry.method, variant, "test_accuracy_resolved", resolved, seeds_done)
        if variant == "selected":
            steps = float(entry.values["steps"])
            yield row(entry.method, variant, "inner_steps", (float(entry.values["inner_steps"]), None), seeds_done)
            yield row(entry.method, variant, "outer_lr", (float(entry.values["outer_lr"]), None), seeds_done)
            yield row(entry.method, variant, "steps", (steps, None), seeds_done)
            yield row(entry.method, variant, "gradient_equivalents", (steps * entry.units, None), seeds_done)
            yield row(entry.method, variant, "seconds", (steps * entry.seconds, None), seeds_done)


def decided(claims: Iterable[Claim], preset: Preset) -> tuple[Claim, ...]:
    """The claims; of the few steps of preset smoke nothing can be said."""
    return tuple(replace(claim, holds=None) if preset == "smoke" else claim for claim in claims)


def first_or_level(found: Comparison) -> Claim:
    """Whether BOME is first of all methods at equal gradient-equivalents, or within a standard error of the first."""
    bome = found.entry("bome").last("test_accuracy")
    others = [
        (entry.last("test_accuracy"), entry) for entry in found.entries if entry.method != "bome" and entry.finished
    ]
    best, entry = max(others, key=lambda pair: pair[0][0])
    error = math.hypot(bome[1] or 0.0, best[1] or 0.0)
    return Claim(
        "BOME is first, or within one standard error of the first, at equal gradient-equivalents",
        found.task,
        "selected",
        f"bome {accuracy(bome)}, best other: {entry.method} {accuracy(best)}",
        bome[0] >= best[0] - error,
    )


def at_least(text: str, task: str, variant: str, number: tuple[float, float | None], bound: float) -> Claim:
    """A number against a bound."""
    return Claim(text, task, variant, f"{accuracy(number)} (bound {bound:g})", number[0] >= bound)


def near(text: str, task: str, number: tuple[float, float | None], told: float, within: float) -> Claim:
    """A number against that of the authors."""
    return Claim(text, task, "references", f"{accuracy(number)} (released {told:g})", abs(number[0] - told) <= within)


def one_inner_step(found: Comparison) -> Claim:
    """Whether T = 1 is as good as the largest T."""
    by_t = found.ablations["T"]
    one, most = by_t["T = 1"].last("test_accuracy"), [*by_t.values()][-1].last("test_accuracy")
    return Claim(
        "T = 1 is nearly as good as the largest T at equal outer steps (within 0.3 points)",
        found.task,
        "ablation",
        f"{accuracy(one)} and {accuracy(most)}",
        one[0] >= most[0] - 0.3,
    )


def sections(found: Comparison, lines: Mapping[str, str], *, cleaning: bool) -> Iterator[Section]:
    """The figures of a task."""
    about = "; ".join(f"{label}: {accuracy(found.reference(name, 'test_accuracy'))} %" for name, label in lines.items())
    drawings = [
        figures.drawing(
            f"{found.task}-{quantity}",
            f"{figures.QUANTITIES[quantity].split(',')[0].capitalize()} on {found.task}",
            "Mean over seeds; the band around BOME is its standard error. Left: equal numbers of gradients; right: the "
            "time these steps take, measured apart with one thread.",
            figures.curves(found, quantity, ("units", "seconds"), lines),
        )
        for quantity in ("test_accuracy", "test_loss", *(("f1",) if cleaning else ()))
    ]
    drawings.append(
        figures.drawing(
            f"{found.task}-resolved",
            f"What the outer variable is worth on {found.task}",
            "Methods that move θ along ∇f have trained on the validation set. Solving the inner problem afresh shows "
            "what v alone brings. Best first, by the loss on validation set 2.",
            figures.joint_and_resolved(found, lines),
        )
    )
    drawings.append(
        figures.drawing(
            f"{found.task}-search",
            f"The choice of T and the step size of v on {found.task}",
            "Seed 0, a short run for each configuration; runs that diverged are left out. The best step size of each T "
            "then ran for the full budget, and the lowest loss there won.",
            figures.search(found),
        )
    )
    yield Section(found.task, f"Reference models: {about}.", tuple(drawings))
    yield Section(
        f"{found.task}: other settings",
        "BOME with other T, α, η and φ, and how much BVFSM and Penalty depend on their coefficients.",
        tuple(
            figures.drawing(
                f"{found.task}-ablation-{i}",
                f"{name} on {found.task}",
                ", ".join(f"{label}: {accuracy(entry.last('test_accuracy'))} %" for label, entry in each.items()),
                figures.ablation(each, ("test_accuracy", "f1") if cleaning else ("test_accuracy", "test_loss"), "step"),
            )
            for i, (name, each) in enumerate(found.ablations.items())
        ),
    )
