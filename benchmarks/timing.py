"""Interleaved timing: a busy neighbour slows all candidates of a round alike, so ratios within a round stay honest."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Timing(NamedTuple):
    """Of one candidate: the median over rounds of its time, and of its ratio to the first candidate, with quartiles."""

    seconds: float
    ratio: float
    low: float
    high: float


def compare(candidates: Mapping[str, Callable[[], object]], rounds: int = 15, calls: int = 1) -> dict[str, Timing]:
    """Time the candidates in turn, in a rotating order, `calls` calls each per round."""
    names = list(candidates)
    for call in candidates.values():
        call()  # warm up: allocations, compilation
    times: dict[str, list[float]] = {name: [] for name in names}
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            call = candidates[name]
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[name].append((time.perf_counter() - start) / calls)
    base = times[names[0]]
    result = {}
    for name in names:
        ratios = sorted(t / b for t, b in zip(times[name], base, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4) if rounds > 1 else (ratios[0],) * 3
        result[name] = Timing(statistics.median(times[name]), middle, low, high)
    return result
