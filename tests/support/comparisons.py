"""Outcomes of a comparison on learning tasks, made up."""

from dataclasses import replace

from bome.runs.jobs import Job, Outcome
from bome_studies.learning.comparison import Comparison, Entry
from bome_studies.learning.hyperclean import HYPERCLEAN, SMOKE
from bome_studies.learning.protocol import METHODS


def outcome(method: str, value: float, *, seed: int = 0, **last: float) -> Outcome:
    job = Job("hyperclean-digits", method, (("inner_steps", 1), ("outer_lr", value), ("steps", 4)), seed)
    return Outcome(job, "finished", "", [{"step": 0, **last}, {"step": 4, **last}], steps=4)


def entry_of(method: str, accuracies: list[float], units_of_a_step: float = 3.0) -> Entry:
    outcomes = tuple(
        outcome(method, 1.0, seed=seed, test_accuracy=accuracy, val2_loss=1.0)
        for seed, accuracy in enumerate(accuracies)
    )
    return Entry(method, {"inner_steps": 1, "outer_lr": 1.0, "steps": 4}, outcomes, units_of_a_step)


def comparison() -> Comparison:
    """A comparison with something of every kind."""
    numbers = {"test_accuracy": 90.0, "test_loss": 0.3, "val2_loss": 0.4, "f1": 93.0, "precision": 92.0, "recall": 94.0}

    def entry(method: str, shift: float, searched: bool) -> Entry:
        outcomes = []
        for seed in range(2):
            last = {name: value + shift + 0.1 * seed for name, value in numbers.items()}
            resolved = {"test_accuracy": 90.5 + shift}
            outcomes.append(replace(outcome(method, 10.0, seed=seed, **last), resolved=resolved))
        tried = tuple(outcome(method, lr, val2_loss=1 / lr) for lr in (1.0, 10.0)) if searched else ()
        return Entry(method, dict(outcomes[0].job.values), tuple(outcomes), 3.0, 0.1, tried)

    return Comparison(
        "hyperclean-digits",
        {name: [numbers, numbers] for name in (*HYPERCLEAN.lines, "known noise")},
        tuple(entry(method, -0.1 * i, True) for i, method in enumerate(METHODS)),
        tuple(entry("bome", 0.1, False) for _ in SMOKE.extra),
        {each.name: {label: entry(each.method, 0.0, False) for label in each.varied} for each in SMOKE.ablations},
    )
