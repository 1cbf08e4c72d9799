"""The figures of the study of BOLIB."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bome.reports.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from bome.tasks.bolib import PREFIX
from bome_studies.bolib.claims import CONSTRAINTS, GROUPS, problems_of, seen_of, unseen_of
from bome_studies.bolib.contenders import SOLVE
from bome_studies.bolib.trials import Outcome, Results

NAMED = {
    SOLVE: BLUE,
    "bome": RED,
    "bome:auto": ORANGE,
    "bome:paper": "#c9a400",
    "bome-qp": PURPLE,
    "aid-cg": SKY,
    "random search": GREEN,
}
"""Those with a colour of their own; the others are grey."""

REFUSED, NO, WRONG, ROUGH, FINE = range(5)
SHADES = ("#ffffff", "#d9d9d9", RED, SKY, BLUE)
LABELS = ("refused", "not solved", "not solved, called a solution", "solved to 1 %", "solved to 0.1 %")


def profile(results: Results) -> Figure:
    """The share of problems that is solved, over the evaluations."""
    figure = Figure(figsize=(9.2, 4.4), layout="constrained")
    sets, constrained = problems_of(results, *GROUPS[:3]), problems_of(results, CONSTRAINTS)
    panels = {"free, box, polyhedron": sets, "constrained": constrained}
    for axes, (title, problems) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        _profile(axes, results, problems)
        axes.set_title(f"{title}: {len(problems)} problems", fontsize=11)
    axes = figure.axes[0]
    axes.set_ylabel("share solved to 1 %")
    handles, labels = axes.get_legend_handles_labels()
    further = [(h, name) for h, name in zip(*figure.axes[1].get_legend_handles_labels(), strict=True)]
    known = dict(zip(labels, handles, strict=True)) | {name: h for h, name in further}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, fontsize=10)
    return figure


def _profile(axes: Axes, results: Results, problems: Sequence[str]) -> None:
    others = False
    for name in results.by_name:
        if results.refused(name, problems) == len(problems):
            continue
        budgets = results.of[name]
        shares = [results.solved(name, problems, budget) / len(problems) for budget in budgets]
        colour = NAMED.get(name)
        label = name if colour else None if others else "other methods"
        others |= colour is None
        width = 2.6 if name == SOLVE else 1.8 if colour else 0.8
        style = "o--" if name == "random search" else "o-"
        order = 3 if name == SOLVE else 2 if colour else 1
        axes.plot(
            budgets, shares, style, color=colour or GREY, label=label, linewidth=width,
            markersize=4 if colour else 0, alpha=1 if colour else 0.5, zorder=order,
        )  # fmt: skip
    ticks = max(results.of.values(), key=len)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{budget:,}" for budget in ticks], fontsize=9)
    axes.minorticks_off()
    axes.set_xlabel("evaluations")
    axes.set_ylim(-0.02, 1.02)


def halves(results: Results) -> Figure:
    """The share solved of the problems that `bome.solve` was designed on, and of the others."""
    names = sorted(results.by_name, key=lambda name: -results.solved(name, problems_of(results)))
    parts = {"designed on": seen_of(results), "never seen": unseen_of(results)}
    figure = Figure(figsize=(8.4, 1.4 + 0.26 * len(names)), layout="constrained")
    axes = figure.subplots()
    for (label, problems), colour, off in zip(parts.items(), (SKY, BLUE), (-0.2, 0.2), strict=True):
        shares = [results.solved(name, problems, results.of[name][-1]) / max(1, len(problems)) for name in names]
        places = [place + off for place in range(len(names))]
        axes.barh(places, shares, height=0.4, color=colour, label=f"{label} ({len(problems)} problems)")
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share solved to 1 %")
    figure.legend(loc="outside lower center", ncols=2, fontsize=10)
    return figure


def chart(results: Results) -> Figure:
    """Every problem and every contender."""
    problems = problems_of(results)
    names = sorted(results.by_name, key=lambda name: -results.solved(name, problems))
    kinds = [[_kind(results.by_name[name][problem], results.of[name][-1]) for name in names] for problem in problems]
    figure = Figure(figsize=(1.8 + 0.32 * len(names) + 2.2, 1.6 + 0.13 * len(problems)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(np.array(kinds), cmap=ListedColormap(SHADES), vmin=0, vmax=len(SHADES) - 1, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=9)
    axes.set_yticks(range(len(problems)), [name.removeprefix(PREFIX) for name in problems], fontsize=6)
    axes.set_xticks(np.arange(-0.5, len(names)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(problems)), minor=True)
    axes.grid(visible=False, which="major")
    axes.grid(which="minor", color="white", linewidth=1.0, alpha=1.0)
    axes.tick_params(which="both", length=0)
    patches = [Patch(facecolor=c, edgecolor=GREY, label=text) for c, text in zip(SHADES, LABELS, strict=True)]
    figure.legend(handles=patches, loc="outside upper center", ncols=3, fontsize=9)
    return figure


def _kind(outcomes: Sequence[Outcome], last: int) -> int:
    """That of most seeds; wrong if one of them is."""
    if outcomes[0].refused:
        return REFUSED
    half = len(outcomes) / 2
    if sum(outcome.solved(last, fine=True) for outcome in outcomes) > half:
        return FINE
    if sum(outcome.solved(last) for outcome in outcomes) > half:
        return ROUGH
    return WRONG if any(o.claim is True and not o.solved(last) for o in outcomes) else NO


def verdicts(results: Results) -> Figure:
    """Verdicts, true ones to the right and false ones to the left."""
    problems = problems_of(results)
    counts = {
        name: [
            results.claimed(name, problems, claim=claim, solved=solved)
            for claim, solved in ((True, True), (False, False), (True, False), (False, True))
        ]
        for name in results.by_name
    }
    told = {name: row for name, row in counts.items() if any(row)}
    figure = Figure(figsize=(8.4, 1.6 + 0.3 * len(told)), layout="constrained")
    axes = figure.subplots()
    labels = ("called a solution, is one", "called none, is none", "called a solution, is none", "called none, is one")
    for part, (label, colour, sign) in enumerate(zip(labels, (BLUE, SKY, RED, ORANGE), (1, 1, -1, -1), strict=True)):
        before = [sign * (row[part - 1] if part in (1, 3) else 0) for row in told.values()]
        axes.barh(list(told), [sign * row[part] for row in told.values()], left=before, color=colour, label=label)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_xlabel("← false        answers        true →")
    axes.xaxis.set_major_formatter(lambda x, _: f"{abs(x):g}")
    figure.legend(loc="outside lower center", ncols=2, fontsize=10)
    return figure
