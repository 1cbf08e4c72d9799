"""Interleaved timing: a busy neighbour slows all candidates of a round alike, so ratios within a round stay honest."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Timing(NamedTuple):
    """Of one candidate, over all rounds.

    Attributes:
        seconds: the median of its time.
        best: its shortest time: what it takes when no neighbour is busy.
        cpu: the shortest time of all its threads together.
        ratio: the median of its time over that of the first candidate in the same round.
        low: the lower quartile of this ratio.
        high: the upper one.
    """

    seconds: float
    best: float
    cpu: float
    ratio: float
    low: float
    high: float


def compare(candidates: Mapping[str, Callable[[], object]], rounds: int = 15, calls: int = 1) -> dict[str, Timing]:
    """Time the candidates in turn, in a rotating order, `calls` calls each per round."""
    names = list(candidates)
    for call in candidates.values():
        call()  # warm up: allocations, compilation
    times: dict[str, list[float]] = {name: [] for name in names}
    cpu = {name: float("inf") for name in names}
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            call = candidates[name]
            start, start_cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
            cpu[name] = min(cpu[name], (time.process_time() - start_cpu) / calls)
    base = times[names[0]]
    result = {}
    for name in names:
        ratios = sorted(t / b for t, b in zip(times[name], base, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4) if rounds > 1 else (ratios[0],) * 3
        result[name] = Timing(statistics.median(times[name]), min(times[name]), cpu[name], middle, low, high)
    return result
