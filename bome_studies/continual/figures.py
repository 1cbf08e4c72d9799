"""The figures of the continual-learning experiment."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bome.reports.figures import BLUE, COLOURS, DASHES, GREY, STYLE, heat_maps
from bome_studies.continual.claims import PAPER
from bome_studies.continual.results import NEARER, SEEN, Entry, Results, Runs, in_words
from bome_studies.figures import draw
from bome_studies.notes import paragraph
from bome_studies.study import Section, Table

SHOWN = ("ctn+bome", "ctn+itd", "er")
"""Whose accuracy matrix is drawn."""

ABLATION = (
    "Mean and standard error over seeds; dashed is the published optimiser, ctn+itd, on the same seeds. q is the gap q̂."
)

NAMES = {"acc": "ACC, %", "ft": "FT, %", "nbt": "NBT, points", "fm": "FM, points"}


def sections(results: Results) -> Iterator[Section]:
    """The figures of a stream."""
    task = results.task
    entries = [entry for entry in results.entries if entry.runs.finished]
    shown = {entry.title: entry.runs.matrix() for entry in entries if entry.title in SHOWN}
    curves = [entry for entry in entries if entry.variant not in (NEARER, SEEN) and results.is_of_paper(entry)]
    drawings = [
        draw(
            f"{task}-table",
            f"Beside the paper on {task}",
            "Mean and standard error over seeds (circles); hollow diamonds are the numbers of the paper, where it has "
            "them. Higher is better for ACC and FT, lower for NBT and FM.",
            beside_paper,
            results,
            entries,
        ),
        draw(
            f"{task}-accuracy",
            f"Accuracy on all tasks so far, {task}",
            "Mean over the tasks learned so far, and over seeds; usual settings, or tuned where there are none.",
            over_tasks,
            curves,
        ),
        draw(
            f"{task}-time",
            f"Time of learning a task, {task}",
            "Processor seconds with one thread, without judging. The memories grow with the number of tasks.",
            times,
            curves,
        ),
    ]
    if shown:
        matrix = draw(
            f"{task}-matrix",
            f"Accuracy on each task as learning goes on, {task}",
            "Row: after which task; column: on which task. A column that fades downwards is forgetting.",
            heat_maps,
            shown,
        )
        drawings.insert(1, matrix)
    about = "Mean ± standard error over the seeds; beside it the number of the paper, where it has one."
    yield Section(task, about, tuple(drawings), table(results, entries))
    if results.ablations:
        yield Section(
            f"{task}: where the advantage comes from",
            paragraph(__file__, "ablation"),
            (draw(f"{task}-ablation", f"Other η, φ and T, {task}", ABLATION, ablation, results),),
            varied(results),
        )


def table(results: Results, entries: Sequence[Entry]) -> Table:
    """All metrics of every strategy, and the paper's."""
    rows = []
    for entry in entries:
        told = PAPER.get(results.task, {}).get(entry.strategy, {}) if results.is_of_paper(entry) else {}
        numbers = [_cell(entry, metric) + (f" ({told[metric]:.2f})" if metric in told else "") for metric in NAMES]
        rows.append((entry.title, *numbers, f"{sum(entry.runs.seconds()):.0f}", f"{len(entry.runs.finished)}"))
    return Table(("strategy", *NAMES.values(), "seconds", "seeds"), tuple(rows))


def _cell(entry: Entry, metric: str) -> str:
    """The metric in words; empty where the strategy does not have it."""
    return in_words(entry.runs.mean(metric)) if entry.runs.values(metric) else ""


def varied(results: Results) -> Table:
    """All metrics of BOME with other settings, beside BOME and the published optimiser."""
    rows = [
        (
            label,
            *(in_words(runs.mean(metric)) for metric in NAMES),
            f"{sum(runs.seconds()):.0f}",
            f"{len(runs.finished)}",
        )
        for label, runs in _by_settings(results).items()
    ]
    return Table(("settings", *NAMES.values(), "seconds", "seeds"), tuple(rows))


def _by_settings(results: Results) -> dict[str, Runs]:
    """BOME and the published optimiser as usual, on the seeds that the other settings have too, and then these."""
    seeds = max(len(entry.runs.summaries) for entry in results.ablations)
    usual = [entry for entry in results.entries if entry.variant == "published" and entry.strategy in SHOWN[:2]]
    shown = {entry.title: Runs(entry.runs.summaries[:seeds]) for entry in usual}
    return {**shown, **{entry.variant: entry.runs for entry in results.ablations}}


def beside_paper(results: Results, entries: Sequence[Entry]) -> Figure:
    """Each metric of each strategy, and the paper's."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13, 0.36 * len(entries) + 1.6), layout="constrained")
        panels = figure.subplots(1, len(NAMES), sharey=True)
        for axes, (metric, name) in zip(panels, NAMES.items(), strict=True):
            for i, entry in enumerate(entries):
                mean, error = entry.runs.mean(metric)
                colour = BLUE if entry.strategy == "ctn+bome" else COLOURS[1]
                axes.errorbar([mean], [i], xerr=[error or 0], fmt="o", color=colour, capsize=2)
                told = PAPER.get(results.task, {}).get(entry.strategy, {}).get(metric)
                if told is not None and results.is_of_paper(entry):
                    axes.plot([told], [i], "D", color=GREY, markerfacecolor="none", markersize=8)
            axes.set_xlabel(name)
        panels[0].set_yticks(range(len(entries)), [entry.title for entry in entries])
        panels[0].invert_yaxis()
    return figure


def over_tasks(entries: Sequence[Entry]) -> Figure:
    """The mean accuracy on the tasks so far, along the stream; a level for a strategy that learns all at once."""
    means = [np.nanmean(entry.runs.matrix(), axis=1).tolist() for entry in entries]
    levels = {entry.title: mean[0] for entry, mean in zip(entries, means, strict=True) if len(mean) == 1}
    return _along_tasks(entries, means, levels, "tasks learned", "mean test accuracy on them, %")


def times(entries: Sequence[Entry]) -> Figure:
    """Seconds of each task."""
    figure = _along_tasks(entries, [entry.runs.seconds() for entry in entries], {}, "task", "seconds")
    figure.axes[0].set_ylim(bottom=0)
    return figure


def _along_tasks(
    entries: Sequence[Entry], values: Sequence[Sequence[float]], levels: Mapping[str, float], across: str, up: str
) -> Figure:
    """A curve for each entry that has values for several tasks, and a dotted line for each level."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 4.6), layout="constrained")
        axes = figure.subplots()
        for i, (entry, y) in enumerate(zip(entries, values, strict=True)):
            if len(y) > 1:
                axes.plot(range(1, len(y) + 1), y, label=entry.title, **_style(entry, i))
        for label, level in levels.items():
            axes.axhline(level, color=GREY, linestyle=":", label=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def ablation(results: Results) -> Figure:
    """ACC and NBT of BOME, as usual and with other settings."""
    shown = _by_settings(results)
    itd, labels = shown.pop("ctn+itd", None), list(shown)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 0.34 * len(labels) + 1.6), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, metric in zip(panels, ("acc", "nbt"), strict=True):
            numbers = [runs.mean(metric) for runs in shown.values()]
            means, errors = [mean for mean, _ in numbers], [error or 0 for _, error in numbers]
            axes.errorbar(means, range(len(labels)), xerr=errors, fmt="o", color=BLUE, capsize=2)
            if itd is not None:
                axes.axvline(itd.mean(metric)[0], color=GREY, linestyle="--")
            axes.set_xlabel(NAMES[metric])
        panels[0].set_yticks(range(len(labels)), [label.replace("q̂", "q") for label in labels])
        panels[0].invert_yaxis()
    return figure


def _style(entry: Entry, i: int) -> dict[str, Any]:
    if entry.title == "ctn+bome":
        return {"color": BLUE, "linewidth": 3.0, "zorder": 5}
    colours = COLOURS[1:]
    return {"color": colours[i % len(colours)], "linestyle": DASHES[i // len(colours) % len(DASHES)]}
