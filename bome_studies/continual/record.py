"""A record of finished runs: a line of JSON for each, so that a page can be made again without hours of computing.

A line has the place of the run in the folder of its experiment, and what its directory has in `config.json` and
`summary.json`. Checkpoints and histories stay out of it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from bome.continual.run import Spec, is_same
from bome.errors import ProblemError, StorageError
from bome.runs.directory import CONFIG, DIVERGED, FINISHED, SUMMARY, Config, config_from, read_config, read_summary
from bome.storage.atomic import write_atomic
from bome_studies.continual.study import place
from bome_studies.toys.trials import PARTS

Line = dict[str, Any]
"""`place`, `config` and `summary` of a run."""


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
    lines = {line["place"]: line for line in read(record)} if record.exists() else {}
    for path in (folder / PARTS).rglob(SUMMARY):
        run = path.parent
        config, name = read_config(run), run.relative_to(folder / PARTS).as_posix()
        if _is_current(config, name):
            lines[name] = {"place": name, "config": asdict(config), "summary": read_summary(run)}
    write_atomic(record, "".join(json.dumps(lines[name], ensure_ascii=False) + "\n" for name in sorted(lines)))


def take_over(record: Path, folder: Path) -> Taken:
    """Lay out the runs of a record in the folder of an experiment where they have not ended.

    A run that was begun there stays as it is, unless it is the very same.

    Raises:
        StorageError: the record cannot be read, or is not one.
    """
    ended = others = barred = 0
    for line in read(record):
        run, config = folder / PARTS / line["place"], config_from(line["config"], str(record))
        if not _is_current(config, line["place"]):
            others += 1
        elif (run / CONFIG).exists() and not is_same(read_config(run), config):
            barred += 1
        elif not (run / SUMMARY).exists():
            write_atomic(run / CONFIG, _dump(line["config"]))
            write_atomic(run / SUMMARY, _dump(line["summary"]))
            ended += 1
    return Taken(ended, others, barred)


def _is_current(config: Config, name: str) -> bool:
    """Whether a run has the settings that it would have today, and its own place."""
    try:
        spec = Spec.of(config)
        return is_same(config, spec.config()) and place(Path(), spec) == Path(PARTS, name)
    except ProblemError:  # of a stream or strategy, or with a setting, that there is no more
        return False


def read(record: Path) -> list[Line]:
    """The lines of a record.

    Raises:
        StorageError: it cannot be read, or is not one.
    """
    try:
        lines = record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {record}: {error}") from error
    return [_parsed(line, f"{record}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]


def _parsed(text: str, where: str) -> Line:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or not _is_run(line):
        raise StorageError(f"{where}: not a run of a record")
    config_from(line["config"], where)
    return line


def _is_run(line: Line) -> bool:
    """Whether a line has what a run has, and a place inside of a folder."""
    name, config, summary = (line.get(key) for key in ("place", "config", "summary"))
    if not isinstance(name, str) or not isinstance(config, dict) or not isinstance(summary, dict):
        return False
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] != "/" and _is_outcome(summary)


def _is_outcome(summary: Line) -> bool:
    """Whether a summary has all that a page is made of, in its right form."""
    observed, matrix, seconds = (summary.get(key) for key in ("observed", "matrix", "seconds_by_task"))
    if not isinstance(observed, dict) or not isinstance(matrix, list) or not isinstance(seconds, list):
        return False
    if not all(isinstance(row, list) for row in matrix) or len({len(row) for row in matrix}) > 1:
        return False
    numbers = (*observed.values(), *(x for row in matrix for x in row), *seconds)
    if not all(x is None or isinstance(x, (int, float)) for x in numbers):
        return False
    status = summary.get("status")
    if not isinstance(summary.get("reason"), str):
        return False
    return status == DIVERGED or (status == FINISHED and bool(matrix) and bool(matrix[0]))


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
