"""The aims of the study of BOLIB, its table, and its rows of numbers."""

from collections.abc import Iterator

from bome.tasks.bolib import RECORDS
from bome_studies.bolib.contenders import SOLVE
from bome_studies.bolib.protocol import SEEN
from bome_studies.bolib.trials import Results
from bome_studies.study import Claim, Preset, Row, Table

GROUPS = ("free", "box", "polyhedron", "constrained")
SETS, CONSTRAINTS = "free, box, polyhedron", "constrained"


def problems_of(results: Results, *groups: str) -> list[str]:
    """The problems that were run, of some groups; of all without one."""
    ran = next(iter(results.by_name.values()))
    return [name for name in ran if not groups or RECORDS[name].group in groups]


def seen_of(results: Results, *groups: str) -> list[str]:
    """Those that `bome.solve` was designed on."""
    return [name for name in problems_of(results, *groups) if name in SEEN]


def unseen_of(results: Results, *groups: str) -> list[str]:
    """Those that it had never seen."""
    return [name for name in problems_of(results, *groups) if name not in SEEN]


def claims(results: Results) -> Iterator[Claim]:
    """Each aim, with what the trials show."""
    sets, constrained = seen_of(results, *GROUPS[:3]), seen_of(results, CONSTRAINTS)
    rough, fine = (results.each_seed(SOLVE, sets, fine=fine) for fine in (False, True))
    yield Claim(
        "Of the problems without constraints that it was designed on, it solves all but one to 1 %, with each seed",
        "aim",
        SOLVE,
        f"{_listed(rough)} of {len(sets)}",
        min(rough) >= len(sets) - 1,
    )
    yield Claim(
        "and four of five of them to 0.1 %",
        "aim",
        SOLVE,
        f"{_listed(fine)} of {len(sets)}",
        min(fine) >= 0.8 * len(sets),
    )
    rough = results.each_seed(SOLVE, constrained)
    yield Claim(
        "Of those with constraints that it was designed on, it solves all but one, with each seed",
        "aim",
        SOLVE,
        f"{_listed(rough)} of {len(constrained)}",
        min(rough) >= len(constrained) - 1,
    )
    unseen = unseen_of(results)
    rough = results.each_seed(SOLVE, unseen)
    yield Claim(
        "It solves nine of ten of the problems that it had never seen, with each seed",
        "aim",
        SOLVE,
        f"{_listed(rough)} of {len(unseen)}",
        min(rough) >= 0.9 * len(unseen),
    )
    everything = problems_of(results)
    reached = {name: results.solved(name, everything) for name in results.by_name}
    ours, others = reached.pop(SOLVE), sorted(reached, key=lambda name: -reached[name])
    yield Claim(
        "It solves more than any method does with the settings that one would take first",
        "aim",
        SOLVE,
        f"{ours:.1f}; then " + ", ".join(f"{name} {reached[name]:.1f}" for name in others[:3]),
        ours > reached[others[0]],
    )
    wrong = results.claimed(SOLVE, everything, claim=True, solved=False)
    yield Claim(
        "At most one of its answers is called a solution and is none",
        "aim",
        SOLVE,
        f"{wrong} of {results.claimed(SOLVE, everything, claim=True, solved=True) + wrong}",
        wrong <= 1,
    )
    missed = results.claimed(SOLVE, everything, claim=False, solved=True)
    yield Claim(
        "At most three of its answers are called none and are solutions",
        "aim",
        SOLVE,
        f"{missed} of {results.claimed(SOLVE, everything, claim=False, solved=False) + missed}",
        missed <= 3,
    )


def table(results: Results) -> Table:
    """Who solves how many, the best first."""
    everything = problems_of(results)
    ends = [(name, results.budgets[-1]) for name in results.by_name]
    ends += [(name, budget) for name, own in results.of.items() for budget in own if budget > results.budgets[-1]]
    ends.sort(key=lambda end: -results.solved(end[0], everything, end[1]))
    counts = [f"{group} ({len(problems_of(results, group))})" for group in GROUPS]
    halves = (f"designed on ({len(seen_of(results))})", f"never seen ({len(unseen_of(results))})")
    header = ("solver", *counts, f"all ({len(everything)})", *halves, "to 0.1 %", "refused", "evaluations")
    return Table(header, tuple(_row(results, name, budget) for name, budget in ends))


def verdicts(results: Results) -> Table:
    """Whose verdicts are true."""
    everything = problems_of(results)
    header = ("solver", "called a solution: is one", "is none", "called none: is none", "is one", "not told")
    rows = []
    for name in results.by_name:
        counts = [
            results.claimed(name, everything, claim=claim, solved=solved)
            for claim, solved in ((True, True), (True, False), (False, False), (False, True))
        ]
        silent = sum(results.claimed(name, everything, claim=None, solved=solved) for solved in (True, False))
        if any(counts):
            rows.append((name, *map(str, counts), str(silent)))
    return Table(header, tuple(rows))


def rows_of(results: Results, preset: Preset, command: str) -> Iterator[Row]:
    """The share of each problem's seeds that is solved, at the end and before."""
    for name, own in results.by_name.items():
        for problem, outcomes in own.items():
            for fine in (False, True):
                shares = [float(outcome.solved(results.of[name][-1], fine=fine)) for outcome in outcomes]
                metric = "solved to 0.1 %" if fine else "solved to 1 %"
                yield Row(
                    problem, name, "", metric, sum(shares) / len(shares), None, len(shares), preset, command
                )  # fmt: skip
            needed = results.needed(name, [problem])
            if needed is not None:
                yield Row(problem, name, "", "evaluations", needed, None, len(outcomes), preset, command)
        seconds = [outcome.seconds for outcomes in own.values() for outcome in outcomes if outcome.marks]
        if seconds:
            yield Row("all", name, "", "seconds", sum(seconds) / len(seconds), None, len(seconds), preset, command)


def _row(results: Results, name: str, budget: int) -> tuple[str, ...]:
    everything = problems_of(results)
    each = [results.solved(name, problems_of(results, group), budget) for group in GROUPS]
    needed = results.needed(name, everything)
    return (
        name if budget == results.budgets[-1] else f"{name}, {budget:,}",
        *map(_short, each),
        _short(sum(each)),
        _short(results.solved(name, seen_of(results), budget)),
        _short(results.solved(name, unseen_of(results), budget)),
        _short(results.solved(name, everything, budget, fine=True)),
        str(results.refused(name, everything)),
        "–" if needed is None else f"{needed:,.0f}",
    )


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
