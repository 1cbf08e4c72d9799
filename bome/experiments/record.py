"""A record of finished runs: a line of JSON for each, so that a page can be made again without hours of computing.

A line has the place of the run in the folder of its experiment, and what its directory has in `config.json` and
`summary.json`. Checkpoints and histories stay out of it.
"""

import json
from pathlib import Path, PurePosixPath
from typing import Any

from bome.checkpoint import write_atomic
from bome.errors import StorageError
from bome.experiments.trials import PARTS
from bome.rundir import CONFIG, SUMMARY, read_summary


def keep(folder: Path, record: Path) -> int:
    """Write all finished runs of an experiment into a record; how many there are."""
    ended = sorted(path.parent for path in (folder / PARTS).rglob(SUMMARY) if (path.parent / CONFIG).exists())
    lines = [
        {
            "place": run.relative_to(folder / PARTS).as_posix(),
            "config": json.loads((run / CONFIG).read_text(encoding="utf-8")),
            "summary": read_summary(run),
        }
        for run in ended
    ]
    write_atomic(record, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return len(lines)


def take_over(record: Path, folder: Path) -> int:
    """Lay out the runs of a record in the folder of an experiment, where it has none of its own; how many.

    Raises:
        StorageError: the record cannot be read, or is not one.
    """
    try:
        lines = record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {record}: {error}") from error
    found = 0
    for number, line in enumerate(lines, start=1):
        place, config, summary = _parsed(line, f"{record}:{number}")
        run = folder / PARTS / place
        if not (run / CONFIG).exists():
            write_atomic(run / CONFIG, _dump(config))
            write_atomic(run / SUMMARY, _dump(summary))  # without it the run would be carried out afresh
            found += 1
    return found


def _parsed(line: str, where: str) -> tuple[PurePosixPath, dict[str, Any], dict[str, Any]]:
    try:
        told = json.loads(line)
        place, config, summary = PurePosixPath(told["place"]), told["config"], told["summary"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StorageError(f"{where}: not a run of a record") from None
    inside = not place.is_absolute() and ".." not in place.parts
    if not inside or not isinstance(config, dict) or not isinstance(summary, dict):
        raise StorageError(f"{where}: not a run of a record")
    return place, config, summary


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
