"""The figures of the mixing study."""

from matplotlib.figure import Figure

from bome.apps.mix.page import weights_over_steps
from bome.reports.figures import BLUE, GREY, RED, as_label
from bome_studies.mixing.trials import BOME_NAME, F2SA_NAME, HELD_OUT, JUNK, UNIFORM, Results

COLOUR = {BOME_NAME: BLUE, F2SA_NAME: RED, UNIFORM: GREY}


def losses(results: Results) -> Figure:
    """The held-out loss of the fresh models."""
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for place, method in enumerate(COLOUR):
        values = results.values(method, HELD_OUT)
        axes.barh(place, results.mean(method, HELD_OUT)[0], color=COLOUR[method], alpha=0.35, height=0.6)
        axes.plot(values, [place] * len(values), "o", color=COLOUR[method])
    everything = [x for method in COLOUR for x in results.values(method, HELD_OUT)]
    room = 0.4 * (max(everything) - min(everything)) + 1e-3
    axes.set_xlim(min(everything) - room, max(everything) + room)
    axes.set_yticks(range(len(COLOUR)), list(COLOUR))
    axes.invert_yaxis()
    axes.set_xlabel("held-out loss, nats per byte (axis cut)")
    return figure


def path(results: Results, method: str) -> Figure:
    """The weights over the steps, with seed 0."""
    return weights_over_steps(results.paths[method])


def ends(results: Results) -> Figure:
    """The mean weight of each source at the end."""
    ours, theirs = results.weights(BOME_NAME), results.weights(F2SA_NAME)
    names = sorted(ours, key=lambda name: -ours[name])
    figure = Figure(figsize=(7.2, 0.3 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots()
    for shift, (method, weights) in enumerate(((BOME_NAME, ours), (F2SA_NAME, theirs))):
        places = [i + 0.4 * shift for i in range(len(names))]
        axes.barh(places, [100 * weights[name] for name in names], 0.38, color=COLOUR[method], label=method)
    axes.axvline(100 / len(names), color=GREY, linestyle=(0, (5, 3)), linewidth=1.2)
    marked = {results.target: " (as the target)", JUNK: " (shuffled letters)"}
    axes.set_yticks([i + 0.2 for i in range(len(names))], [as_label(n) + marked.get(n, "") for n in names])
    axes.invert_yaxis()
    axes.set_xlabel("weight, %")
    axes.grid(visible=False, axis="y")
    axes.legend(fontsize=9, loc="lower right")
    return figure
