"""A record of finished runs: a line of JSON for each, so that a page can be made again without hours of computing.

A line has the place of the run in the folder of the study, the version of the library, and what decides the run and
how it ended, as its folder has them in `config.json` and `summary.json`. Checkpoints and histories stay out of it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bome.continual.run import Spec, Summary, spec_in, summary_in
from bome.errors import ProblemError, StorageError
from bome.storage import jsonfile
from bome.storage.atomic import write_atomic
from bome.storage.folder import CONFIG, SUMMARY, Config, Folder
from bome_studies.continual.study import place
from bome_studies.lines import is_inside, values_of
from bome_studies.parts import PARTS


@dataclass(frozen=True)
class Line:
    """A run of a record.

    Attributes:
        place: of its folder in that of the study, below `parts`.
        version: of the library.
        spec: what decides the result, with all settings written out.
        summary: how it ended.
    """

    place: str
    version: str
    spec: dict[str, Any]
    summary: Summary

    @property
    def run(self) -> Spec:
        """The run."""
        return Spec.from_dict(self.spec, self.place)

    def is_current(self) -> bool:
        """Whether the run has the settings that it would have today, and its own place."""
        try:
            return self.run.to_dict() == self.spec and place(Path(), self.run) == Path(PARTS, self.place)
        except ProblemError:  # of a stream or strategy, or with a setting, that there is no more
            return False


class Taken(NamedTuple):
    """How many runs of a record were taken over, and how many not.

    Attributes:
        ended: taken over.
        others: with other settings than they would have today.
        barred: in whose place the folder holds another run.
    """

    ended: int
    others: int
    barred: int


@contextmanager
def recorded(folder: Path, record: Path) -> Iterator[Taken]:
    """Take over the runs of a record, and keep what has ended in it, even if the rest is stopped.

    Raises:
        StorageError: the record cannot be read or written, or is not one; that is found at the start.
    """
    taken = take_over(record, folder) if record.exists() else Taken(0, 0, 0)
    keep(folder, record)
    try:
        yield taken
    finally:
        keep(folder, record)


def keep(folder: Path, record: Path) -> None:
    """Write all finished runs of an experiment with today's settings into a record; what it has of others stays.

    Raises:
        StorageError: the record cannot be read or written, or is not one; or a run of the folder is damaged.
    """
    lines = {line.place: line for line in read(record)} if record.exists() else {}
    for path in (folder / PARTS).rglob(SUMMARY):
        line = _line_of(path.parent, folder)
        if line is not None and line.is_current():
            lines[line.place] = line
    texts = [json.dumps(asdict(lines[name]), ensure_ascii=False) + "\n" for name in sorted(lines)]
    write_atomic(record, "".join(texts))


def _line_of(run: Path, folder: Path) -> Line | None:
    """The line of a run that has ended; None of anything else."""
    summary = summary_in(Folder(run)) if spec_in(run) is not None else None
    if summary is None:
        return None
    config = Folder(run).config()
    return Line(run.relative_to(folder / PARTS).as_posix(), config.version, config.spec, summary)


def take_over(record: Path, folder: Path) -> Taken:
    """Lay out the runs of a record in the folder of a study where they have not ended.

    A run that was begun there stays as it is, unless it is the very same.

    Raises:
        StorageError: the record cannot be read, or is not one.
    """
    ended = others = barred = 0
    for line in read(record):
        run = folder / PARTS / line.place
        if not line.is_current():
            others += 1
        elif (run / CONFIG).exists() and not Folder(run).holds("continual", line.spec):
            barred += 1
        elif not (run / SUMMARY).exists():
            config = Config("continual", line.spec, line.run.command(run), str(Path.cwd()), line.version)
            jsonfile.write(run / CONFIG, asdict(config))
            Folder(run).finish(asdict(line.summary))
            ended += 1
    return Taken(ended, others, barred)


def read(record: Path) -> list[Line]:
    """The lines of a record.

    Raises:
        StorageError: it cannot be read, or is not one.
    """
    return [_line(values, where) for where, values in values_of(record)]


def _line(values: Any, where: str) -> Line:
    if not isinstance(values, dict) or not _has_form(values):
        raise StorageError(f"{where}: not a run of a record")
    with suppress(ProblemError):  # of a run that there is no more, which is left alone
        Spec.from_dict(values["spec"], where)
    return Line(**{**values, "summary": Summary.from_dict(values["summary"], where)})


def _has_form(values: dict[str, Any]) -> bool:
    """Whether a line has what it should, and a place inside of a folder."""
    kinds = {"place": str, "version": str, "spec": dict, "summary": dict}
    right = set(values) == set(kinds) and all(isinstance(values[name], kind) for name, kind in kinds.items())
    return right and is_inside(values["place"])
