"""The parts of a study: the work on each is done once, and kept as soon as it has ended."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bome._typing import Report
from bome.core.pool import each
from bome.storage import jsonfile
from bome.storage.memo import Memo

PARTS = "parts"
"""The folder of finished parts in that of a study."""


class Part(Protocol):
    """A part: a frozen dataclass of everything that decides its result."""

    @property
    def name(self) -> str:
        """Of its file, without an ending; with "/" it lies in a folder."""


P = TypeVar("P", bound=Part)
Result = TypeVar("Result")


def results_of(
    parts: Sequence[P],
    work: Callable[[P], Result],
    folder: Path,
    report: Report,
    workers: int = 1,
    restore: Callable[[Any], Result] = lambda stored: stored,
) -> dict[str, Result]:
    """What the work on each part gives, by its name; what is finished in the folder is read, not done again.

    Args:
        parts: with different names.
        work: a function of a module, which processes can find by its name.
        folder: of the study.
        report: told of every part that ends.
        workers: processes.
        restore: makes a result of what is stored, where that is more than numbers, text, lists and dictionaries.
    """
    memo = Memo(folder / PARTS)
    results = {part.name: restore(kept) for part in parts if (kept := memo.read(part.name, _spec(part))) is not None}
    if results:
        report("already finished", len(results), len(parts))
    for part, result in each(work, [part for part in parts if part.name not in results], workers):
        memo.write(part.name, _spec(part), _stored(result))
        results[part.name] = result
        report(part.name, len(results), len(parts))
    return {part.name: results[part.name] for part in parts}


def _spec(part: Part) -> Any:
    return jsonfile.plain(_stored(part))


def _stored(value: Any) -> Any:
    """The value with dictionaries in place of data classes."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return {key: _stored(item) for key, item in value.items()} if isinstance(value, dict) else value
