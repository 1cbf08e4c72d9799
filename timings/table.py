"""Plain tables for a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from timings.timing import Timing


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


def timing_row(name: str, timing: Timing, goal: str = "") -> tuple[str, ...]:
    """A row: name, milliseconds (median, shortest, of all threads), ratio with its quartiles, goal."""
    ratio = f"{timing.ratio:.3f} [{timing.low:.3f}, {timing.high:.3f}]"
    times = (f"{1e3 * seconds:.3f}" for seconds in (timing.seconds, timing.best, timing.cpu))
    return name, *times, ratio, goal


TIMING_HEADER = ("what", "ms", "best ms", "CPU ms", "ratio [quartiles]", "goal")
