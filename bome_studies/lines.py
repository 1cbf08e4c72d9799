"""A record of finished parts: a line of JSON for each, so that a page can be made again without hours of computing.

A line has the name of the part, all that decides its result, and the result, as `bome_studies.parts` keeps them. Parts
with tensors stay out of it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from bome.errors import StorageError
from bome.storage import jsonfile
from bome.storage.atomic import write_atomic
from bome.storage.memo import Memo
from bome_studies.parts import PARTS

KEYS = {"name", "spec", "result"}


@contextmanager
def recorded(folder: Path, record: Path) -> Iterator[int]:
    """Take over the parts of a record, how many is told, and keep what has ended in it, even if the rest is stopped.

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
    """Write all finished parts of a study into a record; what it has of others stays.

    Raises:
        StorageError: the record cannot be read or written, or is not one.
    """
    lines = {line["name"]: line for line in read(record)} if record.exists() else {}
    for path in (folder / PARTS).rglob("*.json"):
        name = path.relative_to(folder / PARTS).with_suffix("").as_posix()
        body = jsonfile.read_object(path)
        result = None if body.get("tensors") is not None else Memo(folder / PARTS).read(name, body.get("spec"))
        if result is not None:
            lines[name] = {"name": name, "spec": body["spec"], "result": result}
    texts = [json.dumps(lines[name], ensure_ascii=False) + "\n" for name in sorted(lines)]
    write_atomic(record, "".join(texts))


def take_over(record: Path, folder: Path) -> int:
    """Lay out the parts of a record in the folder of a study where they have not ended; how many there were.

    Raises:
        StorageError: the record cannot be read, or is not one.
    """
    memo, taken = Memo(folder / PARTS), 0
    for line in read(record):
        if memo.read(line["name"], line["spec"]) is None:
            memo.write(line["name"], line["spec"], line["result"])
            taken += 1
    return taken


def read(record: Path) -> list[dict[str, Any]]:
    """The lines of a record.

    Raises:
        StorageError: it cannot be read, or is not one.
    """
    return [_line(values, where) for where, values in values_of(record)]


def values_of(record: Path) -> Iterator[tuple[str, Any]]:
    """What stands in each line of a file, and where; None in place of what is no JSON.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        texts = record.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {record}: {error}") from error
    for number, text in enumerate(texts, start=1):
        if text.strip():
            try:
                values = json.loads(text)
            except (ValueError, RecursionError):
                values = None
            yield f"{record}:{number}", values


def is_inside(name: str) -> bool:
    """Whether a name is that of a place inside of a folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] != "/"


def _line(line: Any, where: str) -> dict[str, Any]:
    """A line with what it should have, and a name inside of a folder."""
    has_form = isinstance(line, dict) and set(line) == KEYS and isinstance(line["name"], str)
    if not has_form or line["result"] is None or not is_inside(line["name"]):
        raise StorageError(f"{where}: not a part of a record")
    found: dict[str, Any] = line
    return found
