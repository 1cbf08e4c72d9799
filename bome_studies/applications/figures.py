"""The figures of the study of the applications."""

from matplotlib.figure import Figure

from bome.reports.figures import BLUE, GREEN, GREY, ORANGE, RED
from bome_studies.applications.contenders import OWN, SOLVE
from bome_studies.applications.trials import BASELINES, START, TUNED, Results

COLOUR = {SOLVE: BLUE, OWN: BLUE, START: GREY, "bome": RED, "bome-z": RED, "itd": ORANGE, "aid-cg": ORANGE}
"""Those with a colour of their own; the baselines by hand are green, the others black."""

COLUMNS = 2


def worth(results: Results) -> Figure:
    """F of everybody, a panel for each application."""
    most = max((len(own) for own in results.by_name.values()), default=0)
    rows = -(-len(results.by_name) // COLUMNS)
    figure = Figure(figsize=(9.6, rows * (1.2 + 0.2 * most)), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in panels.flat[len(results.by_name) :]:
        axes.set_visible(False)
    for axes, (application, own) in zip(panels.flat, results.by_name.items(), strict=False):
        means = {name: results.mean(application, name) for name in own}
        known = sorted((mean, name) for name, mean in ((n, m[0]) for n, m in means.items() if m) for mean in [mean])
        for place, (_, name) in enumerate(known):
            values = results.values(application, name)
            hand = name in BASELINES.get(application, ())
            colour = GREEN if hand else COLOUR.get(name.removesuffix(TUNED), "black")
            axes.plot(values, [place] * len(values), "o", color=colour, markersize=3, alpha=0.7)
            axes.plot([min(values), max(values)], [place, place], color=colour, linewidth=1)
        axes.set_yticks(range(len(known)), [name for _, name in known], fontsize=8)
        axes.invert_yaxis()
        everything = [value for _, name in known for value in results.values(application, name)]
        if everything and 0 < 10 * min(everything) < max(everything):
            axes.set_xscale("log")
        axes.tick_params(axis="x", labelsize=8)
        axes.set_title(application, fontsize=11)
    return figure


def flattery(results: Results) -> Figure:
    """F over f at the live θ."""
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes, ends = figure.subplots(), list[float]()
    labels = set[str]()
    for own in results.by_name.values():
        for name, outcomes in own.items():
            pairs = [(o.live, o.F) for o in outcomes.values() if o.live is not None and o.F is not None]
            pairs = [(live, F) for live, F in pairs if min(live, F) > 1e-4]
            colour = COLOUR.get(name.removesuffix(TUNED), "black")
            label = None if colour == "black" or name in labels or "," in name else name
            labels.add(name)
            if pairs:
                axes.plot(*zip(*pairs, strict=True), "o", color=colour, markersize=4, alpha=0.6, label=label)
                ends += [value for pair in pairs for value in pair]
    if ends:
        axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=GREY, linewidth=1, linestyle="--")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(fontsize=9)
    axes.set_xlabel("f at the live θ, as a run reports it")
    axes.set_ylabel("F: f at models trained with v alone")
    return figure
