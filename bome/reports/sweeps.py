"""The page of a sweep: its configurations side by side, their curves, and which one is chosen and why."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bome._version import __version__
from bome.errors import StorageError
from bome.reports.figures import STYLE, Band, Drawing, bands, render
from bome.reports.html import environment, figure
from bome.reports.tables import called, number
from bome.runs.choice import Choice, criterion, mean_and_error, not_finished, observed, ranked
from bome.runs.directory import FIGURES, REPORT
from bome.runs.jobs import Job, Outcomes, jobs_of
from bome.storage.atomic import write_atomic
from bome.storage.folder import CONFIG, Folder

MOST_ROWS, MOST_CURVES = 200, 6
"""Configurations in the table, and in a figure; the best ones."""

REASONS = {
    "val2_loss": "the loss on validation set 2, which no run learns from",
    "distance_to_optimum": "the distance to the known solution",
    "F": "F(v): f at a θ that was trained anew on g alone",
    "kkt": "how far from stationary a run ends",
    "f": "the outer loss",
}
"""What each criterion is, in words."""

CURVES = ("val2_loss", "test_accuracy", "distance_to_optimum", "f", "q", "kkt", "lam")
"""What is drawn over the steps, where it was logged."""

LOGARITHMIC = ("distance_to_optimum", "q", "kkt")


def write_page(folder: Path) -> Path:
    """Write the figures and the page of a sweep, from its files alone; of one that has not ended as far as it has come.

    Raises:
        StorageError: the files are damaged.
    """
    config, store = Folder(folder).config("sweep"), Outcomes(folder)
    try:
        jobs, axes = jobs_of(config.spec), list(config.spec["grid"])
    except (KeyError, TypeError, AttributeError):
        raise StorageError(f"{folder / CONFIG} is damaged: it does not tell the grid of a sweep") from None
    outcomes = [outcome for job in jobs if (outcome := store.read(job)) is not None]
    choices, by = ranked(outcomes), criterion(outcomes)
    drawings = _curves(choices, axes, by)
    for drawing in drawings:
        write_atomic(folder / FIGURES / f"{drawing.name}.svg", drawing.svg)
    page = environment().get_template("sweep.html").render(
        title=f"{config.spec['task']} by {config.spec['method']}: a sweep",
        progress=_progress(jobs, len(outcomes)),
        verdict=_verdict(choices, axes, by),
        command=config.command,
        columns=["", "configuration", "seeds", *map(called, _shown(choices, by))],
        rows=[_row(choice, i, axes, _shown(choices, by)) for i, choice in enumerate(choices[:MOST_ROWS])],
        left_out=max(0, len(choices) - MOST_ROWS),
        figures=[figure(drawing) for drawing in drawings],
        broken=_broken(choices, axes)[:MOST_ROWS],
        settings=list(config.spec["set"].items()),
        version=__version__,
    )  # fmt: skip
    write_atomic(folder / REPORT, page)
    return folder / REPORT


def _progress(jobs: Sequence[Job], ended: int) -> str:
    runs, seeds = len(jobs), len({job.seed for job in jobs})
    size = f"{_many(runs // seeds, 'configuration')}, each with {_many(seeds, 'seed')}"
    return f"{size}." if ended == runs else f"{size}. This sweep has not ended: {ended} of {_many(runs, 'run')} have."


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _verdict(choices: Sequence[Choice], axes: Sequence[str], by: str) -> str:
    """Which configuration is chosen, and why."""
    if not choices or not math.isfinite(choices[0].score):
        return "No configuration is chosen: none came to its end with all seeds."
    best, *others = (choice for choice in choices if math.isfinite(choice.score))
    mean, error = best.mean(by)
    text = (
        f"Chosen: {best.swept(axes)}. On average over its seeds it has the lowest {called(by)}, {_value(mean, error)}"
    )
    text += f"; next comes {others[0].swept(axes)} with {_value(*others[0].mean(by))}. " if others else ". "
    return f"{text}That is {REASONS[by]}; the test set has no part in the choice."


def _shown(choices: Sequence[Choice], by: str) -> list[str]:
    """The columns of numbers: what chooses comes first."""
    return list(
        dict.fromkeys(
            [by, *sorted(observed(choices), key=lambda name: name != "test_accuracy"), "f", *_judged(choices), "q"]
        )
    )


def _judged(choices: Sequence[Choice]) -> list[str]:
    """F, where it was measured."""
    return ["F"] if any("F" in outcome.last for choice in choices for outcome in choice.outcomes) else []


def _row(choice: Choice, place: int, axes: Sequence[str], names: Iterable[str]) -> list[str]:
    chosen = "chosen" if place == 0 and math.isfinite(choice.score) else str(place + 1)
    seeds = f"{len(choice.finished)} of {len(choice.outcomes)}"
    return [chosen, choice.swept(axes), seeds, *(_value(*choice.mean(name)) for name in names)]


def _broken(choices: Sequence[Choice], axes: Sequence[str]) -> list[tuple[str, int, str, str]]:
    return [(choice.swept(axes), run.job.seed, run.status, run.reason) for choice, run in not_finished(choices)]


def _value(mean: float, error: float | None) -> str:
    """A mean with its standard error, as far as there is one."""
    if math.isnan(mean):
        return "–"
    return number(mean) if error is None else f"{number(mean)} ± {error:.2g}"


def _curves(choices: Sequence[Choice], axes: Sequence[str], by: str) -> list[Drawing]:
    best = [choice for choice in choices if choice.finished][:MOST_CURVES]
    drawings = []
    for name in dict.fromkeys([by, *CURVES]):
        curves = {choice.swept(axes): band for choice in best if (band := _band(choice, name)) is not None}
        if curves:
            with mpl.rc_context(STYLE):
                svg = render(bands(curves, called(name), logarithmic=name in LOGARITHMIC))
            drawings.append(Drawing(name, called(name), "Mean over the seeds; shaded: ± its standard error.", svg))
    return drawings


def _band(choice: Choice, name: str) -> Band | None:
    """Mean and standard error over the seeds at each logged step that all of them have; None without any."""
    series = [_series(outcome.history, name) for outcome in choice.finished]
    steps = sorted(set.intersection(*(set(values) for values in series)))
    if not steps:
        return None
    pairs = [mean_and_error([values[step] for values in series]) for step in steps]
    mean, error = zip(*((mean, error or 0.0) for mean, error in pairs), strict=True)
    return Band(steps, mean, error)


def _series(history: Iterable[dict[str, Any]], name: str) -> dict[int, float]:
    return {row["step"]: float(row[name]) for row in history if isinstance(row.get(name), (int, float))}
