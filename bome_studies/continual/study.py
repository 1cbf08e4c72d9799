"""Continual learning: the contextual transformation network with BOME, beside the strategies of the paper's table.

The stages, each made of runs in folders of their own, so that any number of processes may share them:

1. on the tuning tasks, the settings of every strategy whose settings are not published: the highest mean ACC wins;
2. every strategy on all its seeds;
3. BOME with other η, φ and T.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bome._typing import Report
from bome.continual.run import Spec, Summary, ended, learn
from bome.core.pool import each
from bome.errors import ProblemError
from bome.storage import jsonfile
from bome.storage.folder import Folder
from bome_studies.continual.claims import claims, notes, rows_of
from bome_studies.continual.figures import sections
from bome_studies.continual.protocol import PROTOCOLS, Candidate, Protocol, Values
from bome_studies.continual.results import Entry, Missing, Results, Runs
from bome_studies.notes import paragraph, points
from bome_studies.page import command
from bome_studies.parts import PARTS
from bome_studies.study import Findings, Preset, decided

CHOSEN = "chosen.json"
"""The settings chosen on the tuning tasks, with all that were tried."""


@dataclass(frozen=True)
class Chosen:
    """The settings of a strategy.

    Attributes:
        values: beside the usual ones.
        tried: the mean ACC on the tuning tasks of all settings among which they were chosen; None where a run diverged.
    """

    values: Values
    tried: tuple[float | None, ...] = ()


class Continual:
    """The continual-learning experiment."""

    name = "continual"

    def run(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; what is finished in `folder` is read, and what is under way there is continued."""
        return self._findings(preset, [carry_out(protocol, folder, report, workers) for protocol in PROTOCOLS[preset]])

    def so_far(self, preset: Preset, folder: Path) -> Findings:
        """What the finished runs in `folder` tell; nothing is run."""
        found = [collected(protocol, folder) for protocol in PROTOCOLS[preset]]
        if not any(results.entries for results in found):
            again = Folder(folder).again
            raise ProblemError(f"no run in {folder} has ended with today's settings: go on with '{again}'")
        return self._findings(preset, found)

    def _findings(self, preset: Preset, found: Sequence[Results]) -> Findings:
        made_by = command(self.name, preset)
        about = ["about", "unfinished"] if any(results.missing for results in found) else ["about"]
        return Findings(
            title="Continual learning",
            about=" ".join(paragraph(__file__, section) for section in about),
            sections=tuple(section for results in found if results.entries for section in sections(results)),
            claims=decided((claim for results in found for claim in claims(results)), preset),
            rows=tuple(row for results in found for row in rows_of(results, preset, made_by)),
            notes=(
                *(note for results in found for note in notes(results)),
                *(points(__file__, "notes") if preset != "smoke" else ()),
            ),
        )


CONTINUAL = Continual()


def one_part(preset: Preset, task: str, strategy: str, seed: int, folder: Path, variant: str | None = None) -> Summary:
    """Carry out exactly one run of a preset, and the choice of its settings if that has not been made.

    Args:
        preset: which protocol.
        task: the stream.
        strategy: its name.
        seed: of the run.
        folder: of the experiment, as `bome reproduce continual --out` has it.
        variant: "published" or "selected", where the preset has both; by default the former.

    Returns:
        The summary of the run.
    """
    protocol = next((p for p in PROTOCOLS[preset] if p.task == task), None)
    if protocol is None:
        raise ProblemError(f"preset {preset!r} has no task {task!r}")
    candidate = protocol.candidate(strategy, variant)  # the first of the strategy where no variant is named
    values = choose(protocol, candidate, folder, lambda what, done, total: None, 1).values
    spec = Spec(task, strategy, seed, values)
    return learn(spec, place(folder, spec))


def carry_out(protocol: Protocol, folder: Path, report: Report, workers: int) -> Results:
    """All stages on one stream."""
    task = protocol.task
    chosen = [(candidate, choose(protocol, candidate, folder, report, workers)) for candidate in protocol.candidates]
    work = [spec for candidate, settings in chosen for spec in _runs(task, candidate, settings.values)]
    work += [spec for specs in _further(protocol).values() for spec in specs]
    perform(work, folder, workers, lambda n, of: report(task, n, of))
    return collected(protocol, folder)


def collected(protocol: Protocol, folder: Path) -> Results:
    """What the finished runs on one stream tell."""
    task, entries, missing = protocol.task, [], []
    for candidate in protocol.candidates:
        settings = _settled(protocol, candidate, folder)
        runs = Runs([]) if settings is None else _ended(_runs(task, candidate, settings.values), folder)
        if settings is not None and runs.summaries:
            usual = Spec(task, candidate.strategy, 0).to_dict()["settings"]
            rest = (settings.values, runs, settings.tried, candidate.grid, candidate.seeds, usual)
            entries.append(Entry(candidate.strategy, candidate.variant, *rest))
        if len(runs.summaries) < candidate.seeds:
            told = f"{candidate.strategy} ({candidate.variant}): {len(runs.summaries)} of {candidate.seeds}"
            missing.append(Missing(candidate.variant, told))
    ablations, short = [], 0
    for label, specs in _further(protocol).items():
        runs = _ended(specs, folder)
        short += len(runs.summaries) < len(specs)
        if runs.summaries:
            ablations.append(Entry(specs[0].strategy, label, specs[0].values, runs, seeds=len(specs)))
    if short:
        told = f"other settings of BOME: {len(protocol.ablations) - short} of {len(protocol.ablations)}"
        missing.append(Missing("ablation", told))
    return Results(task, tuple(entries), tuple(ablations), tuple(missing))


def place(folder: Path, spec: Spec) -> Path:
    """The folder of a run in that of the experiment."""
    words = [spec.strategy.replace(":", "-"), *(f"{key}={value}" for key, value in spec.values.items())]
    kind = () if spec.part == "learning" else (spec.part,)
    return Path(folder, PARTS, spec.stream, *kind, "-".join([*words, f"seed{spec.seed}"]))


def _runs(task: str, candidate: Candidate, values: Values) -> list[Spec]:
    return [Spec(task, candidate.strategy, seed, values) for seed in range(candidate.seeds)]


def _further(protocol: Protocol) -> dict[str, list[Spec]]:
    """The runs of the ablations."""
    seeds = range(protocol.ablation_seeds)
    return {
        label: [Spec(protocol.task, strategy, seed, values) for seed in seeds]
        for label, (strategy, values) in protocol.ablations.items()
    }


def _ended(specs: Sequence[Spec], folder: Path) -> Runs:
    """The runs that have ended, up to the first that has not."""
    found: list[Summary] = []
    for spec in specs:
        summary = ended(spec, place(folder, spec))
        if summary is None:
            break
        found.append(summary)
    return Runs(found)


def choose(protocol: Protocol, candidate: Candidate, folder: Path, report: Report, workers: int) -> Chosen:
    """The settings of a strategy: those with the highest mean ACC on the tuning tasks, recorded in a file."""
    task, tried = protocol.task, _tried(protocol, candidate)
    label = f"{task}: choosing {candidate.strategy}"
    perform([spec for specs in tried for spec in specs], folder, workers, lambda n, of: report(label, n, of))
    found = _settled(protocol, candidate, folder)
    assert found is not None  # noqa: S101 - all that are tried have ended
    if tried:
        scores = [{"values": specs[0].values, "acc": acc} for specs, acc in zip(tried, found.tried, strict=True)]
        choice = {"task": task, "strategy": candidate.strategy, "values": found.values}
        content = {**choice, "judged by": "ACC", "seeds": protocol.tuning_seeds, "tried": scores}
        record = folder / PARTS / task / "tuning" / f"{candidate.strategy}-{CHOSEN}"
        jsonfile.write(record, content)
    return found


def _settled(protocol: Protocol, candidate: Candidate, folder: Path) -> Chosen | None:
    """The settings with the highest mean ACC on the tuning tasks; None if not all that are tried have ended."""
    tried = _tried(protocol, candidate)
    if not tried:
        return Chosen(candidate.grid[0] if candidate.grid else {})
    runs = [_ended(specs, folder) for specs in tried]
    if any(len(found.summaries) < protocol.tuning_seeds for found in runs):
        return None
    means = [found.mean("acc")[0] for found in runs]
    best = max(range(len(means)), key=lambda i: -1.0 if math.isnan(means[i]) else means[i])
    return Chosen(candidate.grid[best], tuple(None if math.isnan(mean) else mean for mean in means))


def _tried(protocol: Protocol, candidate: Candidate) -> list[list[Spec]]:
    """The runs on the tuning tasks by which settings are chosen, for each of them; none if there is no choice."""
    grid, seeds = candidate.grid if len(candidate.grid) > 1 else (), range(protocol.tuning_seeds)
    return [[Spec(protocol.task, candidate.strategy, seed, values, "tuning") for seed in seeds] for values in grid]


def perform(specs: Sequence[Spec], folder: Path, workers: int, report: Callable[[int, int], None]) -> None:
    """Carry out runs, some at a time."""
    parts = [(spec, place(folder, spec)) for spec in specs]
    for done, _ in enumerate(each(_perform, parts, workers), start=1):
        report(done, len(parts))


def _perform(part: tuple[Spec, Path]) -> None:
    learn(*part)
