"""What a comparison says: sections of the report, rows of `docs/results/<study>.json`, and claims."""

import math
from collections.abc import Iterator, Mapping, Sequence

from bome.runs.choice import mean_and_error
from bome_studies.figures import draw
from bome_studies.learning import figures as figures
from bome_studies.learning.comparison import Comparison, Entry
from bome_studies.numbers import digits, points
from bome_studies.study import Claim, Preset, Row, Section, Table

METRICS = ("test_accuracy", "test_loss", "val2_loss", "f1", "precision", "recall")
TITLES = {
    "test_accuracy": "test accuracy, %",
    "val2_loss": "validation 2 loss",
    "f1": "F1, %",
}
"""Of the metrics that tables show."""


def rows_of(comparison: Comparison, preset: Preset, command: str, extra: Sequence[str]) -> Iterator[Row]:
    """All numbers of a task."""

    def row(method: str, variant: str, metric: str, number: tuple[float, float | None], seeds: int) -> Row:
        return Row(comparison.task, method, variant, metric, number[0], number[1], seeds, preset, command)

    for name, seeds in comparison.references.items():
        for metric in seeds[0]:
            yield row("reference", name, metric, comparison.reference(name, metric), len(seeds))
    entries = [(entry, "selected") for entry in comparison.entries] + list(zip(comparison.extra, extra, strict=True))
    entries += [
        (entry, f"{name}: {label}") for name, each in comparison.ablations.items() for label, entry in each.items()
    ]
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


def common(comparison: Comparison) -> Iterator[Claim]:
    """Whether BOME is first, as selected and as tuned, and whether one inner step is enough."""
    yield first_or_level(comparison, comparison.entry("bome"), "selected")
    yield first_or_level(comparison, comparison.extra[0], "tuned")
    yield one_inner_step(comparison)


def first_or_level(comparison: Comparison, bome: Entry, variant: str) -> Claim:
    """Whether BOME is first of all methods at equal gradient-equivalents, or within a standard error of the first.

    On the seeds that all of them have, by the differences on each: the draw of the data is the same for both.
    """
    alike = comparison.alike
    bome = bome.on(len(alike.entries[0].outcomes))
    others = [entry for entry in alike.entries if entry.method != "bome" and entry.finished]
    best = max(others, key=lambda entry: entry.last("test_accuracy")[0])
    difference, error = mean_and_error(
        [
            ours.last["test_accuracy"] - theirs.last["test_accuracy"]
            for ours, theirs in zip(bome.outcomes, best.outcomes, strict=True)
        ]
    )
    return Claim(
        "BOME is first, or within one standard error of the first, at equal gradient-equivalents",
        comparison.task,
        variant,
        f"bome {points(bome.last('test_accuracy'))}, best other: {best.method} "
        f"{points(best.last('test_accuracy'))}, difference {points((difference, error))} on {len(bome.outcomes)} "
        "common seeds",
        difference >= -(error or 0.0),
    )


def at_least(text: str, task: str, variant: str, number: tuple[float, float | None], aim: float) -> Claim:
    """A number against an aim of this project."""
    return Claim(text, task, variant, f"{points(number)} (aim {aim:g})", number[0] >= aim)


def near(text: str, task: str, number: tuple[float, float | None], released: float, within: float) -> Claim:
    """A number against that of the authors."""
    numbers = f"{points(number)} (released {released:g}; may differ by {within:g})"
    return Claim(text, task, "references", numbers, abs(number[0] - released) <= within)


def one_inner_step(comparison: Comparison) -> Claim:
    """Whether T = 1 is as good as the largest T."""
    by_t = comparison.ablations["T"]
    one, most = by_t["T = 1"].last("test_accuracy"), [*by_t.values()][-1].last("test_accuracy")
    return Claim(
        "T = 1 is nearly as good as the largest T at equal outer steps (within 0.3 points)",
        comparison.task,
        "ablation",
        f"{points(one)} and {points(most)}",
        one[0] >= most[0] - 0.3,
    )


def outer_variable_alone(text: str, comparison: Comparison, reference: str) -> Claim:
    """Whether θ solved afresh for the v of BOME beats a reference model."""
    afresh = comparison.entry("bome").last("test_accuracy", resolved=True)
    plain = comparison.reference(reference, "test_accuracy")
    numbers = f"{points(afresh)} against {points(plain)}"
    return Claim(text, "not in the paper", "selected", numbers, afresh[0] > plain[0])


def sections(
    comparison: Comparison, lines: Mapping[str, str], extra: Sequence[str], *, cleaning: bool
) -> Iterator[Section]:
    """The tables and figures of a task."""
    alike = comparison.alike
    seeds = len(alike.entries[0].outcomes)
    drawings = [
        draw(
            f"{comparison.task}-{quantity}",
            f"{figures.QUANTITIES[quantity].split(',')[0].capitalize()} on {comparison.task}",
            f"Mean over seeds 0 to {seeds - 1}; the band around BOME is its standard error. Left: equal numbers of "
            "gradients; right: the time these steps take, measured apart with one thread.",
            figures.curves,
            alike,
            quantity,
            ("units", "seconds"),
            lines,
        )
        for quantity in ("test_accuracy", "test_loss", *(("f1",) if cleaning else ()))
    ]
    drawings.append(
        draw(
            f"{comparison.task}-resolved",
            f"What the outer variable is worth on {comparison.task}",
            "Methods that move θ along ∇f have trained on the validation set. Solving the inner problem afresh shows "
            "what v alone brings. Best first, by the loss on validation set 2.",
            figures.joint_and_resolved,
            alike,
            lines,
        )
    )
    drawings.append(
        draw(
            f"{comparison.task}-search",
            f"The choice of T and the step size of v on {comparison.task}",
            "Seed 0, a short run for each configuration; runs that diverged are left out. The best step size of each T "
            "then ran for the full budget, and the lowest loss there won.",
            figures.search,
            comparison,
        )
    )
    yield Section(comparison.task, _about(comparison), tuple(drawings), results(comparison, extra, cleaning=cleaning))
    for i, (name, each) in enumerate(comparison.ablations.items()):
        yield Section(
            f"{comparison.task}: {name}",
            _shared(each),
            (
                draw(
                    f"{comparison.task}-ablation-{i}",
                    f"{name} on {comparison.task}",
                    "Along the runs.",
                    figures.ablation,
                    each,
                    ("test_accuracy", "f1" if cleaning else "test_loss"),
                    "step",
                ),
            ),
            _varied(name, each, cleaning=cleaning),
        )


def results(comparison: Comparison, extra: Sequence[str], *, cleaning: bool) -> Table:
    """What every method reaches, and the reference models."""
    entries = [(entry.method, entry) for entry in comparison.entries]
    entries += [(f"bome, “{name}”", entry) for name, entry in zip(extra, comparison.extra, strict=True)]
    rows = []
    for title, entry in entries:
        steps = entry.values["steps"]
        settings = f"{entry.values['inner_steps']}", f"{entry.values['outer_lr']:g}", f"{steps}"
        costs = f"{steps * entry.units:.0f}", f"{len(entry.outcomes) - len(entry.astray)}"
        rows.append(
            (
                title,
                *_reached(entry, cleaning=cleaning),
                _cell_of(entry, "test_accuracy", resolved=True),
                *settings,
                *costs,
            )
        )
    for name, each in comparison.references.items():
        numbers = [_cell(m, comparison.reference(name, m)) if m in each[0] else "" for m in _metrics(cleaning=cleaning)]
        rows.append((f"reference: {name}", *numbers, "", "", "", "", "", f"{len(each)}"))
    header = ("method", *(TITLES[metric] for metric in _metrics(cleaning=cleaning)), "θ afresh, %")
    return Table((*header, "T", "ξ_v", "steps", "gradients", "seeds"), tuple(rows))


def _metrics(*, cleaning: bool) -> tuple[str, ...]:
    return ("test_accuracy", "val2_loss", *(("f1",) if cleaning else ()))


def _reached(entry: Entry, *, cleaning: bool) -> tuple[str, ...]:
    return tuple(_cell_of(entry, metric) for metric in _metrics(cleaning=cleaning))


def _cell_of(entry: Entry, metric: str, *, resolved: bool = False) -> str:
    return _cell(metric, entry.last(metric, resolved=resolved))


def _cell(metric: str, number: tuple[float, float | None]) -> str:
    if math.isnan(number[0]):
        return ""
    return digits(number) if metric.endswith("loss") else points(number)


def _about(comparison: Comparison) -> str:
    """What the table does not say."""
    sentences = ["Best first, by the loss on validation set 2; mean ± standard error over the seeds."]
    astray = [(entry.method, entry.astray) for entry in comparison.entries if entry.astray]
    if astray:
        named = "; ".join(f"{method} on {_listed('seed', seeds)}" for method, seeds in astray)
        sentences.append(f"Diverged, and therefore last here and in no figure: {named}.")
    return " ".join(sentences)


def _listed(word: str, numbers: Sequence[int]) -> str:
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _shared(entries: Mapping[str, Entry]) -> str:
    """The settings that all runs of an ablation have."""
    first = next(iter(entries.values()))
    same = {k: x for k, x in first.values.items() if all(each.values.get(k) == x for each in entries.values())}
    seeds = _listed("seed", [outcome.job.seed for outcome in first.outcomes])
    return f"{first.method} on {seeds} with {', '.join(f'{key} = {value}' for key, value in same.items())}."


def _varied(name: str, entries: Mapping[str, Entry], *, cleaning: bool) -> Table:
    rows = tuple((label, *_reached(entry, cleaning=cleaning)) for label, entry in entries.items())
    return Table((name, *(TITLES[metric] for metric in _metrics(cleaning=cleaning))), rows)
