"""How often verdicts of runs are right: problems of BOLIB without constraints, each answer looked at by brute force.

    python -m bome_studies.bolib.verdicts

"Stationary" is false in the global sense where the answer does not solve the problem. It is false in the local sense
where a θ near by has a lower g, or a v near by a lower f after θ was solved again by scipy, from where it is.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bome.cli.console import line
from bome.core import pool
from bome.errors import BilevelError
from bome.loop import run
from bome.runs.plan import plan
from bome.stopping import MaxEvaluations
from bome.storage import jsonfile
from bome.tasks.bolib import RECORDS, Record, problem_of
from bome.tasks.bolib.judge import judge
from bome.tasks.bolib.search import local_minimum
from bome_studies.bolib.contenders import claim_of, quiet

METHODS = ("bome", "aid-cg", "itd", "soba", "pbgd")
BUDGET = 5_000
TOLERANCE = 0.01
"""What counts as lower, relative to max(1, |value|)."""
PUSHES, RADII, POLLED = (0.0, 1e-3, 1e-3, 1e-2, 1e-2), (0.1, 0.01), 60
"""How far θ is pushed; how far away v are looked at, relative to max(1, ‖v‖), and how many."""
TIE = 1e-6
"""Of several θ with the least g the one is taken that g + TIE f prefers."""


@dataclass(frozen=True)
class Ended:
    """A run, and what brute force says of its answer.

    Attributes:
        problem: its name.
        method: that was run.
        claim: whether the verdict is "stationary"; None where it does not know, or the run has failed.
        verdict: in words.
        x: v.
        y: θ.
        solved: whether the problem is solved to 1 %.
        refuted: what refutes the answer in the local sense; empty if nothing does.
    """

    problem: str
    method: str
    claim: bool | None
    verdict: str
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    solved: bool = False
    refuted: str = ""


def ended(part: tuple[str, str]) -> Ended:
    """A run of a method on a problem, with the settings one would take first."""
    name, method = part
    record, order = RECORDS[name], plan(name, method)
    options = order.optimisers()._asdict()
    try:
        with quiet():
            result = run(order.task.problem, order.method, **options, tuner=order.tuner, stop=MaxEvaluations(BUDGET))
    except BilevelError as error:
        return Ended(name, method, None, str(error))
    (x,), (y,) = order.task.problem.point
    solved, claim = judge(record, x, y).solved(), claim_of(result.certificate)
    refuted = refutation(record, x, y) if claim or solved else ""
    verdict = result.certificate.verdict
    return Ended(name, method, claim, verdict, tuple(x.tolist()), tuple(y.tolist()), solved, refuted)


def refutation(record: Record, x: Tensor, y: Tensor) -> str:
    """What shows near by that (x, y) is no local solution; empty if nothing does."""
    dice, problem = np.random.default_rng(0), problem_of(record)
    f, g = float(record.f(x, y)), float(record.g(x, y))
    for push in PUSHES:
        (start,) = problem.project_theta((y + push * torch.from_numpy(dice.standard_normal(len(y))),))
        end = _descended(record, x, start)
        if end is not None and g - float(record.g(x, end)) > TOLERANCE * max(1.0, abs(g)):
            return f"from θ, pushed by {push:g}, g falls from {g:.4g} to {float(record.g(x, end)):.4g}"
    end = _descended(record, x, y)
    if end is not None and abs(float(record.f(x, end)) - f) > TOLERANCE * max(1.0, abs(f)):
        return f"where a descent of g from θ ends f is {float(record.f(x, end)):.4g}, not {f:.4g}"
    for radius in RADII:
        for _ in range(POLLED):
            way = torch.from_numpy(dice.standard_normal(len(x)))
            far = radius * max(1.0, float(x.norm())) * dice.random()
            (there,) = problem.project_v((x + far * way / way.norm(),))
            lowest = min((float(record.f(there, z)) for z in _best(record, there, y)), default=f)
            if lowest < f - TOLERANCE * max(1.0, abs(f)):
                return f"v = {[round(z, 4) for z in there.tolist()]}, near by, has f = {lowest:.4g}, not {f:.4g}"
    return ""


def _descended(record: Record, x: Tensor, y: Tensor) -> Tensor | None:
    end, _ = local_minimum(record, x, y.numpy())
    return None if end is None else torch.from_numpy(end)


def _best(record: Record, x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Where a descent of g from y ends, and of θ with the same g the one that f prefers."""
    end = _descended(record, x, y)
    if end is None:
        return
    yield end
    least = float(record.g(x, end))
    slack = TIE * (1 + abs(least))
    tilted = replace(record, g=lambda x, y: record.g(x, y) + slack * record.f(x, y))
    other = _descended(tilted, x, end)
    if other is not None and float(record.g(x, other)) - least <= slack:
        yield other


def table(runs: Sequence[Ended]) -> str:
    """The counts, a line for each method and one for all."""
    head = ("method", "stationary", "false near by", "not solved", "solved", "called not", "unknown")
    lines = [" | ".join(head)]
    for method in (*dict.fromkeys(e.method for e in runs), "all"):
        own = [e for e in runs if method in (e.method, "all")]
        claimed, solved = [e for e in own if e.claim], [e for e in own if e.solved]
        counts = (
            len(claimed), sum(bool(e.refuted) for e in claimed), sum(not e.solved for e in claimed),
            len(solved), sum(e.claim is False for e in solved), sum(e.claim is None for e in solved),
        )  # fmt: skip
        lines.append(" | ".join((method, *map(str, counts))))
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--problems", nargs="+", default=[name for name, r in RECORDS.items() if not r.constrained])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a JSON file with every run")
    given = parser.parse_args()
    runs = []
    parts = [(problem, method) for problem in given.problems for method in given.methods]
    for _, result in pool.each(ended, parts, given.jobs):
        runs.append(result)
        false = f"; refuted: {result.refuted}" if result.refuted else ""
        line(f"{result.problem} {result.method}: {'' if result.solved else 'un'}solved; {result.verdict}{false}")
    line(table(runs))
    if given.out is not None:
        jsonfile.write(given.out, [vars(result) for result in runs])


if __name__ == "__main__":
    main()
