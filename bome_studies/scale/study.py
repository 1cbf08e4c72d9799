"""The scale benchmark: how the time and the memory of a step grow, and what that means for a large model."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bome.reports.figures import BLUE, GREY, RED, STYLE
from bome_studies.learning.claims import decided
from bome_studies.learning.figures import drawing
from bome_studies.page import BENCH, command
from bome_studies.scale.trials import COPIES, RATIO, SECONDS, Protocol, carry_out, projection
from bome_studies.study import Claim, Findings, Preset, Report, Row, Section

Found = Mapping[str, Mapping[int, Mapping[str, float]]]

ABOUT = (
    "One step of BOME against the evaluations it is made of, T + 1 gradients of g and one of f by backward(), and "
    "against plain training: over the number of parameters, T, the number of samples with a weight of their own, and "
    "the number of ranks."
)

LABELS = {
    "parameters": "parameters of the model",
    "T": "inner steps T",
    "samples": "samples with a weight",
    "ranks": "ranks (DDP, gloo)",
}

PROTOCOLS: Mapping[Preset, Protocol] = {
    "smoke": Protocol((1_000, 10_000), (1, 2), (1_000, 100_000), (1,), middle=1_000, repeats=1),
    "quick": Protocol((10**4, 10**5, 10**6, 10**7, 10**8), (1, 2, 5, 10, 20), (10**4, 10**5, 10**6, 10**7), (1, 2, 4)),
    "paper": Protocol(
        (10**4, 10**5, 10**6, 10**7, 10**8),
        (1, 2, 5, 10, 20, 50),
        (10**4, 10**5, 10**6, 10**7),
        (1, 2, 4),
        repeats=15,
    ),
}


class Scale:
    """The benchmark of costs, by one process, since times are taken."""

    name = f"{BENCH}scale"

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Measure; points that are in `folder` are read."""
        found = carry_out(PROTOCOLS[preset], folder, report)
        return Findings(
            title="How cost grows",
            about=ABOUT,
            sections=tuple(_sections(found)),
            claims=decided(_claims(found), preset),
            rows=tuple(_rows(found, preset, command(self.name, preset))),
            notes=(*_projected(), *NOTES),
        )


SCALE = Scale()


NOTES = (
    "Models: four square layers with tanh, 8 samples in a batch, so that weights and not activations cost; one thread. "
    "Times are seconds of the processor, with ranks seconds of the clock; a step and its bare evaluations take turns, "
    "and the ratio is the median over the rounds. Where ranks share processors, seconds say little; the ratio does.",
    "Memory: bytes of tensors alive at the same time in a step beyond those in a step of plain training with the same "
    "optimiser, in copies of the parameters; counted, not sampled. Below 10^6 parameters the fixed blocks of the "
    "products in float64 count as copies.",
    "Samples: 256 of them in a step with T = 1, momentum 0.9 and a box; the ratio is to a table of 256 rows.",
)


def _projected() -> Iterator[str]:
    told = projection()
    yield (
        "Projection to 7·10^9 parameters on 8 GPUs with FSDP2, by counting alone. Assumed: bfloat16 weights "
        "and gradients, Adam with float32 master weights and two moments (16 bytes a parameter), activations left out. "
        f"Plain training holds {told['plain']:.1f} GB on each GPU, BOME {told['bome']:.1f} GB (θ_k and the first "
        "gradient of g, 4 bytes a parameter), two models with their optimisers, as ScaleBiO keeps them, "
        f"{told['two_models']:.1f} GB."
    )
    yield (
        f"Messages of the same model: an evaluation sends {told['evaluation']:.1f} GB from each GPU (weights gathered "
        "twice, gradients scattered once, in bfloat16, by a ring), a step with "
        f"T = {told['inner_steps']} its T + 2 evaluations: {told['step']:.0f} GB, and one message of a few numbers for "
        f"λ. At 300 GB/s that is {told['step'] / 300:.1f} s. With LoRA of 40·10^6 parameters the two copies are "
        "0.02 GB on each GPU, and no gradients of frozen weights are sent."
    )


def _claims(found: Found) -> Iterator[Claim]:
    worst = max(point[RATIO] for point in found["parameters"].values())
    yield Claim(
        "Even with 8 samples in a batch, where evaluations are cheapest, a step costs at most twice its evaluations",
        "aim",
        "parameters",
        ", ".join(f"{place:,}: {point[RATIO]:.2f}" for place, point in found["parameters"].items()),
        worst <= 2,
    )
    large = {place: point[COPIES] for place, point in found["parameters"].items() if place >= 10**7}
    yield Claim(
        "From 10^7 parameters a step needs at most two more copies of the parameters than plain training",
        "aim",
        "parameters",
        ", ".join(f"{place:,}: {copies:.2f}" for place, copies in large.items()),
        max(large.values(), default=9.0) <= 2.1,
    )
    over_t = [point[COPIES] for point in found["T"].values()]
    yield Claim(
        "Memory is flat in T: within a tenth of a copy",
        "aim",
        "T",
        f"{min(over_t):.2f} to {max(over_t):.2f} copies",
        max(over_t) - min(over_t) <= 0.1,
    )
    times = [point[SECONDS] for point in found["samples"].values()]
    yield Claim(
        "The time of a step does not depend on the number of samples: at most 1.5 times from the fewest to the most",
        "aim",
        "samples",
        ", ".join(f"{place:,}: {1e3 * point[SECONDS]:.2f} ms" for place, point in found["samples"].items()),
        times[-1] <= 1.5 * times[0],
    )
    ranks = [point[RATIO] for point in found["ranks"].values()]
    yield Claim(
        "With DDP a step costs at most 1.3 times its evaluations on any number of ranks",
        "aim",
        "ranks",
        ", ".join(f"{n}: {point[RATIO]:.2f}" for n, point in found["ranks"].items()),
        max(ranks) <= 1.3,
    )


def _rows(found: Found, preset: Preset, told: str) -> Iterator[Row]:
    for axis, points in found.items():
        for place, numbers in points.items():
            for metric, value in numbers.items():
                yield Row(axis, "bome", str(place), metric, value, None, 1, preset, told)


def _sections(found: Found) -> Iterator[Section]:
    yield Section(
        "Time",
        "The ratio tells what BOME adds to the evaluations; 1 is nothing.",
        tuple(
            drawing(
                axis.lower(),
                f"Time by {LABELS[axis]}",
                "Left: seconds of a step. Right: ratio.",
                _time(found[axis], axis),
            )
            for axis in found
        ),
    )
    yield Section(
        "Memory",
        "Beyond plain training, in copies of the parameters.",
        (
            drawing(
                "memory",
                "Extra memory",
                "Flat in T (at 10^5 parameters); two copies for large models, where fixed blocks no longer count.",
                _memory(found),
            ),
            drawing("projection", "7·10^9 parameters on 8 GPUs", "By counting; activations left out.", _gpus()),
        ),
    )


def _time(points: Mapping[int, Mapping[str, float]], axis: str) -> Figure:
    with mpl.rc_context(STYLE):
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


def _memory(found: Found) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.2), layout="constrained")
        for axes, axis in zip(figure.subplots(1, 2, sharey=True), ("parameters", "T"), strict=True):
            axes.plot(list(found[axis]), [point[COPIES] for point in found[axis].values()], "o-", color=BLUE)
            axes.set_xlabel(LABELS[axis])
            axes.set_ylim(0, 4.5)
            if axis == "parameters":
                axes.set_xscale("log")
                axes.set_ylabel("extra copies of θ")
    return figure


def _gpus() -> Figure:
    told = projection()
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 2.6), layout="constrained")
        axes = figure.subplots()
        bars = {"plain training": ("plain", GREY), "BOME": ("bome", BLUE), "two models": ("two_models", RED)}
        for place, (name, (key, colour)) in enumerate(bars.items()):
            axes.barh(place, told[key], color=colour, alpha=0.7, height=0.6)
            axes.text(told[key] + 0.3, place, f"{told[key]:.1f} GB", va="center", fontsize=9)
            axes.text(0.3, place, name, va="center", fontsize=9)
        axes.set_yticks([])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * told["two_models"])
        axes.set_xlabel("memory of each GPU, GB")
    return figure
