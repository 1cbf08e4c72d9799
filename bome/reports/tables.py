"""The tables of a report, as text; the page escapes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bome.reports.runs import Run
from bome.runs import directory

CERTIFICATE = (
    ("kkt", "𝒦, estimated", "Zero at a solution. The sum of the next two lines."),
    (
        "kkt_gradient",
        "… gradient part",
        "min over λ ≥ 0 of ‖∇f + λ∇q̂‖²: what is left of ∇f once the constraint has pushed back. Zero when no small "
        "move decreases f without increasing the gap.",
    ),
    ("q", "… gap q̂", "By how much T inner steps still decrease g. Zero when θ solves the inner problem."),
    (
        "q_twice",
        "q̂ with 2T steps",
        "The same with twice as many inner steps. Much more than the line above: T is too small to see the gap.",
    ),
    ("exact_kkt", "𝒦, exact", "The measure with the true inner solution, where it is known, in place of a look-ahead."),
    ("cos", "cos(∇f, ∇q̂)", "−1: the two losses pull in opposite directions, as they should at a constrained optimum."),
    (
        "lambda_zero_share",
        "share of steps with λ = 0",
        "How often the outer loss could be followed freely. All of them: the constraint never mattered.",
    ),
    ("f", "f", "The outer loss at the end."),
    ("g", "g", "The inner loss at the end."),
)
"""Each number of a certificate: its key, its name and what it means."""


OUTCOMES = {"True": "yes", "False": "no", "None": "not known"}
"""What the outcome of a test is called, by its text in Python."""


def number(value: Any) -> str:
    """A number for people; a dash where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def sentence(text: str) -> str:
    """The text as a sentence: a capital, unless it begins with a letter of its own such as f, and a full stop."""
    text = text.strip()
    symbol = text[1:2] in (" ", "(")
    return (text if symbol else text[:1].upper() + text[1:]) + (
        "" if text.endswith((".", "!", "?")) or not text else "."
    )


def overview(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """The table of all runs, the names of its columns and its lines; without columns that no run has anything for."""
    lines = [_line(run) for run in runs]
    names = list(dict.fromkeys(name for line in lines for name in line))  # in the order in which they come
    shown = [name for name in names if any(line.get(name, "–") != "–" for line in lines)]
    last = ("evaluations", "seconds")
    shown = [name for name in shown if name not in last] + [name for name in shown if name in last]
    return shown, [[line.get(name, "–") for name in shown] for line in lines]


def _line(run: Run) -> dict[str, str]:
    summary = run.summary
    return {
        "problem": run.name,
        "method": run.method,
        "f": number(summary.get("f")),
        "F(v)": number(_part(summary, "refit").get("F")),
        "optimal f": number(_part(summary, "optimum").get("f")),
        "distance": number(summary.get("distance_to_optimum")),
        "gap q̂": number(summary.get("q")),
        **{called(key): number(value) for key, value in _part(summary, "observed").items()},
        "evaluations": evaluations(run),
        "seconds": number(summary.get("seconds")),
    }


def results(run: Run) -> list[tuple[str, str]]:
    """The outcome of one run, as far as there is one."""
    summary, optimum = run.summary, _part(run.summary, "optimum")
    rows = [
        ("outer loss f", number(summary.get("f"))),
        *worth(summary),
        ("optimal f", number(optimum.get("f"))),
        ("solution", str(optimum.get("text", "–"))),
        ("distance to it", number(summary.get("distance_to_optimum"))),
        ("gap q̂", number(summary.get("q"))),
        *((called(key), number(value)) for key, value in _part(summary, "observed").items()),
        *((f"{called(key)}, θ solved afresh", number(value)) for key, value in _part(summary, "resolved").items()),
        ("batches learned" if "matrix" in summary else "outer steps", number(summary.get("steps"))),
        ("evaluations (value and gradient)", evaluations(run)),
        ("beside them, for the certificate", _counted(_part(_part(summary, "certificate"), "evaluations"))),
        ("beside them, for F(v)", _counted(_part(_part(summary, "refit"), "evaluations"))),
        ("seconds in steps", number(summary.get("seconds"))),
        *((f"{key}, picked automatically", number(value)) for key, value in _part(summary, "tuned").items()),
    ]
    return [row for row in rows if row[1] != "–"]


def worth(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """F(v) with what there is to warn of, or why it was not measured."""
    refit = _part(summary, "refit")
    if not refit:
        return [("F(v)", str(summary.get("worth") or "–").removeprefix("F(v) is "))]
    warnings = refit.get("warnings")
    return [
        (
            "F(v): f at a θ trained anew on g alone",
            f"{number(refit.get('F'))}, after {number(refit.get('steps'))} steps",
        ),
        ("the same with the first v", number(refit.get("F_first"))),
        *(("warning", sentence(str(text))) for text in (warnings if isinstance(warnings, list) else [])),
    ]


def called(key: str) -> str:
    """The name of an observed quantity for people: an abbreviation in capitals, words in words."""
    return key.upper() if len(key) <= 3 else key.replace("_", " ")


def status(run: Run) -> str:
    """How the run ended, in a sentence."""
    if not run.summary:
        return f"This run has not ended; {len(run.rows)} rows are logged so far."
    if run.summary.get("status") == directory.DIVERGED:
        return f"This run diverged: {run.summary.get('reason')}."
    return f"This run is complete: {run.summary.get('reason')}."


def verdict(run: Run) -> str:
    """The certificate in words."""
    return sentence(str(_part(run.summary, "certificate").get("verdict", ""))) or status(run)


def tests(values: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """What a certificate has tested: what must hold, whether it does, the number that was found, and the limit."""
    rows = values.get("tests")
    return [
        (
            str(row.get("name")),
            OUTCOMES.get(str(row.get("passed")), "–"),
            number(row.get("value")),
            number(row.get("limit")),
        )
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, Mapping)
    ]


def certificate(run: Run) -> list[tuple[str, str, str]]:
    """Each number of the certificate, its value and what it means."""
    values = _part(run.summary, "certificate")
    return [(name, number(values.get(key)), meaning) for key, name, meaning in CERTIFICATE if values]


def evaluations(run: Run) -> str:
    """How often the losses were evaluated."""
    return _counted(_part(run.summary, "evaluations"))


def _counted(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{number(n)} {kind}" for kind, n in counts.items() if n) or "–"


def settings(run: Run) -> list[tuple[str, str, str]]:
    """All settings, with a mark at those given by hand."""
    return [(key, _text(value), "given" if key in run.given else "default") for key, value in run.settings.items()]


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _part(summary: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of the summary; nothing if it is missing or of another kind."""
    part = summary.get(key)
    return part if isinstance(part, Mapping) else {}
