"""What the study of continual learning says: the numbers of the paper beside ours, claims, rows of results, notes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bome.continual.metrics import METRICS
from bome_studies.continual.results import NEARER, SEEN, TUNED, Entry, Results, in_words
from bome_studies.notes import paragraph
from bome_studies.study import Claim, Preset, Row

STREAMS = ("continual-pmnist", "continual-cifar")

Told = tuple[float | None, float | None, float | None, float | None]
"""ACC, NBT, FT and FM in per cent, as far as the paper tells them."""

TABLES: Mapping[str, tuple[Told, Told]] = {
    "offline": ((84.95, None, None, None), (74.11, None, None, None)),
    "mer": ((76.59, 5.73, 82.32, 6.88), (60.32, 8.91, 69.23, 11.80)),
    "gem": ((72.74, None, 80.53, 9.45), (61.33, None, 69.37, 9.21)),
    "er": ((72.11, None, 80.06, 9.53), (61.96, None, 69.14, 8.48)),
    "ctn+itd": ((78.40, 5.62, 84.02, 6.25), (67.70, 4.88, 72.58, 5.76)),
    "ctn+bvfsm": ((77.78, 7.25, 85.03, 7.86), (67.04, 6.97, 74.01, 7.61)),
    "ctn+penalty": ((67.74, None, 77.28, 10.10), (47.41, None, 55.76, 9.34)),
    "ctn+bome": ((80.70, 4.09, 84.79, 4.73), (68.16, 4.72, 72.88, 5.32)),
}
"""The tables of the paper for both streams: NBT of its main table, and as FM the NBT of its appendix."""

PAPER: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    stream: {
        strategy: {
            metric: value
            for metric, value in zip(("acc", "nbt", "ft", "fm"), told[i], strict=True)
            if value is not None
        }
        for strategy, told in TABLES.items()
    }
    for i, stream in enumerate(STREAMS)
}
"""The same by stream, strategy and metric."""

TARGETS = {"continual-pmnist": (80.2, 4.6, 1.5), "continual-cifar": (67.0, None, None)}
"""For BOME: the least ACC, the largest NBT, and the least distance to `ctn+itd`."""

BEYOND = {"continual-pmnist": 81.5}
"""The ACC that BOME should reach with more than the paper had."""

CONSTANT = "no barrier, λ = 2, T = 2"
"""The ablation with a constant multiplier of the size of BOME's η."""

NEAR = 2.0
"""Points within which another row of the table counts as reproduced."""

FITTED = {("continual-pmnist", "er"), ("continual-pmnist", "gem")}
"""Rows whose settings were chosen since they come near to the paper's."""

TABLE = "Table 1 and the appendix"

OURS = "not in the paper"


def claims(results: Results) -> Iterator[Claim]:
    """What the paper says of a stream, and what is found; undecided as long as runs are missing that it is about."""
    task, bome = results.task, results.entry("ctn+bome", "published")
    if bome is None:
        return
    if task in TARGETS:
        yield from _targets(results, bome)
    offline = results.entry("offline")
    if offline is not None:
        yield _compared("Learning all tasks at once is an upper bound", TABLE, results, offline, bome, 0.0)
    for entry in results.entries:
        told = PAPER.get(task, {}).get(entry.strategy)
        if told is not None and entry.variant not in (NEARER, SEEN) and results.is_of_paper(entry):
            yield _near(entry, task, told)
    constant = next((entry for entry in results.ablations if entry.variant == CONSTANT), None)
    if constant is not None:
        text = "The barrier does better than a constant multiplier λ = η = 2"
        yield _compared(text, OURS, results, bome, constant, 0.0)
    tuned = results.entry("ctn+bome", TUNED)
    if tuned is None:
        return
    others = [e for e in results.entries if e.variant == TUNED and e.strategy not in ("offline", "ctn+bome")]
    if others:
        best = max(others, key=lambda entry: entry.runs.mean("acc")[0])
        text = "With settings chosen on the tuning tasks BOME is ahead of all others"
        claim = _compared(text, OURS, results, tuned, best, 0.0)
        found = f"{claim.found}; chosen from {len(tuned.tried)} and {len(best.tried)} settings"
        found += f"; {best.strategy} lies at an end of its grid" if best.at_an_end else ""
        missing = any(each.variant == TUNED for each in results.missing)  # a better one may be among them
        open_end = claim.holds is True and bool(best.at_an_end)  # or beyond what was tried
        yield replace(claim, found=found, holds=None if missing or open_end else claim.holds)
    if task in BEYOND:
        acc = tuned.runs.mean("acc")
        yield Claim(
            "With settings chosen on the tuning tasks BOME goes beyond the paper's ACC",
            OURS,
            f"{task}, {tuned.title}",
            f"{in_words(acc)} (aim {BEYOND[task]:g}): {tuned.told}",
            acc[0] >= BEYOND[task] if tuned.complete else None,
        )


def _targets(results: Results, bome: Entry) -> Iterator[Claim]:
    task = results.task
    least, most, apart = TARGETS[task]
    acc, nbt = bome.runs.mean("acc"), bome.runs.mean("nbt")
    reached = acc[0] >= least if bome.complete else None
    yield Claim("ACC of the network with BOME", TABLE, task, f"{in_words(acc)} (aim ≥ {least:g})", reached)
    if most is not None:
        reached = nbt[0] <= most if bome.complete else None
        yield Claim("NBT of the network with BOME", TABLE, task, f"{in_words(nbt)} (aim ≤ {most:g})", reached)
    size = f" by {apart:g} points" if apart else ""
    for variant, how in (("published", ""), (SEEN, ", with replays of the current task too")):
        ours, theirs = results.entry("ctn+bome", variant), results.entry("ctn+itd", variant)
        if ours is not None and theirs is not None:
            text = f"BOME in place of the published optimiser improves ACC{size}{how}"
            yield _compared(text, TABLE, results, ours, theirs, apart or 0.0)


def _compared(text: str, place: str, results: Results, a: Entry, b: Entry, least: float) -> Claim:
    """Whether a is ahead of b by so many points; if only by any, by more than two standard errors.

    A single seed decides nothing.
    """
    (mean, error), words = results.difference(a, b)
    known = error is not None and a.complete and b.complete
    close = least == 0 and error is not None and abs(mean) <= 2 * error
    found = f"{a.title} minus {b.title}: {words}"
    return Claim(text, place, results.task, found, mean >= least and mean > 0 if known and not close else None)


def _near(entry: Entry, task: str, told: Mapping[str, float]) -> Claim:
    """All metrics of a row beside the paper's; ACC decides, if there are several seeds of it."""
    acc, error = entry.runs.mean("acc")
    names = [metric for metric in METRICS if metric in told]
    found = "; ".join(f"{name.upper()} {in_words(entry.runs.mean(name))} (paper {told[name]:.2f})" for name in names)
    holds = abs(acc - told["acc"]) <= NEAR if error is not None and entry.complete else None
    found += "; one seed" if acc == acc and error is None else ""
    found += "; its settings were chosen for that" if (task, entry.title) in FITTED else ""
    return Claim(f"{entry.title}: ACC within {NEAR:g} points of the paper", TABLE, task, found, holds)


def rows_of(results: Results, preset: Preset, command: str) -> Iterator[Row]:
    """All numbers of a stream: metrics, time, and the settings that were chosen; one that is a text as `key=text`."""
    for entry in (*results.entries, *results.ablations):
        seeds = len(entry.runs.finished)
        for metric in METRICS:
            mean, error = entry.runs.mean(metric)
            if mean == mean:
                yield Row(results.task, entry.strategy, entry.variant, metric, mean, error, seeds, preset, command)
        for key, value in {"seconds": sum(entry.runs.seconds()), **entry.values}.items():
            name, number = (f"{key}={value}", 1.0) if isinstance(value, str) else (key, float(value))
            yield Row(results.task, entry.strategy, entry.variant, name, number, None, seeds, preset, command)


def notes(results: Results) -> Iterator[str]:
    """How settings were chosen on a stream, what was looked for, what diverged, and what is missing."""
    task = results.task
    for entry in results.entries:
        if entry.tried:
            known = [acc for acc in entry.tried if acc is not None]
            scores = f"{max(known):.1f}; the lowest of {len(entry.tried)} is {min(known):.1f}" if known else "unknown"
            scores += f"; {len(entry.tried) - len(known)} diverged" if len(known) < len(entry.tried) else ""
            ends = f"; at an end of its grid: {', '.join(entry.at_an_end)}" if entry.at_an_end else ""
            yield f"{task}, {entry.title}: {entry.told}, by the highest mean ACC on the tuning tasks, {scores}{ends}."
        for seed, reason in entry.runs.failures():
            yield f"{task}, {entry.title}, seed {seed}: {reason}"
    nearer = [entry for entry in results.entries if entry.nearer]
    if nearer:
        names = "; ".join(entry.title for entry in nearer)
        yield paragraph(__file__, "nearer", stream=task, names=names)
    if results.missing:
        yield f"{task}, runs that have ended so far: {'; '.join(each.told for each in results.missing)}."
