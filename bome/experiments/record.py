"""A record of finished runs: a line of JSON for each, so that a page can be made again without hours of computing.

A line has the place of the run in the folder of its experiment, and what its directory has in `config.json` and
`summary.json`. Checkpoints and histories stay out of it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bome.checkpoint import write_atomic
from bome.errors import StorageError
from bome.experiments.trials import PARTS
from bome.rundir import CONFIG, SUMMARY, read_config, read_summary

Line = dict[str, Any]
"""`place`, `config` and `summary` of a run."""


@contextmanager
def recorded(folder: Path, record: Path) -> Iterator[int]:
    """Take over the runs of a record, and keep what has ended in it, even if the rest is stopped; how many were taken.

    Raises:
        StorageError: the record cannot be read or written, or is not one; that is found at the start.
    """
    taken = take_over(record, folder) if record.exists() else 0
    keep(folder, record)
    try:
        yield taken
    finally:
        keep(folder, record)


def keep(folder: Path, record: Path) -> None:
    """Write all finished runs of an experiment into a record; what it has of others stays.

    Raises:
        StorageError: the record cannot be read or written, or is not one.
    """
    lines = {line["place"]: line for line in read(record)} if record.exists() else {}
    for path in (folder / PARTS).rglob(SUMMARY):
        run = path.parent
        config = json.loads((run / CONFIG).read_text(encoding="utf-8"))
        name = run.relative_to(folder / PARTS).as_posix()
        lines[name] = {"place": name, "config": config, "summary": read_summary(run)}
    write_atomic(record, "".join(json.dumps(lines[name], ensure_ascii=False) + "\n" for name in sorted(lines)))


def take_over(record: Path, folder: Path) -> int:
    """Lay out the runs of a record in the folder of an experiment where they have not ended; how many.

    A run that was begun there with other settings stays as it is.

    Raises:
        StorageError: the record cannot be read, or is not one.
    """
    taken = 0
    for line in read(record):
        run = folder / PARTS / line["place"]
        if not (run / CONFIG).exists():
            write_atomic(run / CONFIG, _dump(line["config"]))
        if (run / SUMMARY).exists() or read_config(run).settings != line["config"].get("settings"):
            continue
        write_atomic(run / SUMMARY, _dump(line["summary"]))
        taken += 1
    return taken


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
    return line


def _is_run(line: Line) -> bool:
    """Whether a line has what a run has, and a place inside of a folder."""
    name, config, summary = (line.get(key) for key in ("place", "config", "summary"))
    if not isinstance(name, str) or not isinstance(config, dict) or not isinstance(summary, dict):
        return False
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] != "/" and {"status", "observed", "matrix"} <= summary.keys()


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
