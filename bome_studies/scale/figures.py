"""The figures of the study of scale."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from bome.reports.figures import BLUE, GREY, RED
from bome_studies.scale.trials import COPIES, RATIO, SECONDS, Measured, projection

LABELS = {
    "parameters": "parameters of the model",
    "T": "inner steps T",
    "samples": "samples with a weight",
    "ranks": "ranks (DDP, gloo)",
}


def time(points: Mapping[int, Mapping[str, float]], axis: str) -> Figure:
    """Seconds of a step, and their ratio to the bare evaluations, along an axis."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = list(points)
    for axes, metric, label in ((left, SECONDS, "seconds a step"), (right, RATIO, "ratio")):
        axes.plot(places, [points[place][metric] for place in places], "o-", color=BLUE)
        axes.set_xlabel(LABELS[axis])
        axes.set_ylabel(label)
        if axis in ("parameters", "samples"):
            axes.set_xscale("log")
        else:
            axes.set_xticks(places)
    left.set_yscale("log")
    right.axhline(1, color=GREY, linestyle=(0, (5, 3)), linewidth=1.2)
    right.set_ylim(0, 1.15 * max(point[RATIO] for point in points.values()))
    return figure


def memory(numbers: Measured) -> Figure:
    """Extra copies of θ, along the sizes of models and along T."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    for axes, axis in zip(figure.subplots(1, 2, sharey=True), ("parameters", "T"), strict=True):
        axes.plot(list(numbers[axis]), [point[COPIES] for point in numbers[axis].values()], "o-", color=BLUE)
        axes.set_xlabel(LABELS[axis])
        axes.set_ylim(0, 4.5)
        if axis == "parameters":
            axes.set_xscale("log")
            axes.set_ylabel("extra copies of θ")
    return figure


def gpus() -> Figure:
    """The memory of a large model on each of several GPUs, by counting."""
    gigabytes = projection()
    figure = Figure(figsize=(5.6, 2.6), layout="constrained")
    axes = figure.subplots()
    bars = {"plain training": ("plain", GREY), "BOME": ("bome", BLUE), "two models": ("two_models", RED)}
    for place, (name, (key, colour)) in enumerate(bars.items()):
        axes.barh(place, gigabytes[key], color=colour, alpha=0.7, height=0.6)
        axes.text(gigabytes[key] + 0.3, place, f"{gigabytes[key]:.1f} GB", va="center", fontsize=9)
        axes.text(0.3, place, name, va="center", fontsize=9)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * gigabytes["two_models"])
    axes.set_xlabel("memory of each GPU, GB")
    return figure
