"""The aims of the study of scale, and its rows of numbers."""

from collections.abc import Iterator

from bome_studies.scale.trials import COPIES, RATIO, SECONDS, Measured
from bome_studies.study import Claim, Preset, Row


def claims(numbers: Measured) -> Iterator[Claim]:
    """Each aim, with what was measured."""
    worst = max(point[RATIO] for point in numbers["parameters"].values())
    yield Claim(
        "Even with 8 samples in a batch, where evaluations are cheapest, a step costs at most twice its evaluations",
        "aim",
        "parameters",
        ", ".join(f"{place:,}: {point[RATIO]:.2f}" for place, point in numbers["parameters"].items()),
        worst <= 2,
    )
    large = {place: point[COPIES] for place, point in numbers["parameters"].items() if place >= 10**7}
    yield Claim(
        "From 10^7 parameters a step needs at most two more copies of the parameters than plain training",
        "aim",
        "parameters",
        ", ".join(f"{place:,}: {copies:.2f}" for place, copies in large.items()),
        max(large.values(), default=9.0) <= 2.1,
    )
    over_t = [point[COPIES] for point in numbers["T"].values()]
    yield Claim(
        "Memory is flat in T: within a tenth of a copy",
        "aim",
        "T",
        f"{min(over_t):.2f} to {max(over_t):.2f} copies",
        max(over_t) - min(over_t) <= 0.1,
    )
    times = [point[SECONDS] for point in numbers["samples"].values()]
    yield Claim(
        "The time of a step does not depend on the number of samples: at most 1.5 times from the fewest to the most",
        "aim",
        "samples",
        ", ".join(f"{place:,}: {1e3 * point[SECONDS]:.2f} ms" for place, point in numbers["samples"].items()),
        times[-1] <= 1.5 * times[0],
    )
    ranks = [point[RATIO] for point in numbers["ranks"].values()]
    yield Claim(
        "With DDP a step costs at most 1.3 times its evaluations on any number of ranks",
        "aim",
        "ranks",
        ", ".join(f"{n}: {point[RATIO]:.2f}" for n, point in numbers["ranks"].items()),
        max(ranks) <= 1.3,
    )


def rows_of(numbers: Measured, preset: Preset, command: str) -> Iterator[Row]:
    """All numbers."""
    for axis, points in numbers.items():
        for place, point in points.items():
            for metric, value in point.items():
                yield Row(axis, "bome", str(place), metric, value, None, 1, preset, command)
