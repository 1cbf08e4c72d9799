"""Data hyper-cleaning on MNIST and FashionMNIST: the figures of the paper for all methods, and what they leave out."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from bome.tasks.hyperclean import EPOCHS, PRETRAINING, judge, mean_loss, ridge, start_model, train_model
from bome.tasks.softmax import Model, Samples, cross_entropies, descend, minimise, scores
from bome.tasks.splits import Split, pool_of, split_of, together
from bome_studies.learning.claims import at_least, common, near, outer_variable_alone
from bome_studies.learning.comparison import Comparison, Numbers
from bome_studies.learning.protocol import Ablations, LearningProtocol, paper, smoke
from bome_studies.learning.study import LearningStudy, settings_in_words
from bome_studies.numbers import points
from bome_studies.study import Claim, Preset

LINES: Mapping[str, str] = {
    "noisy": "noisy start",
    "validation": "validation samples only",
    "clean": "right labels + validation",
    "train+validation": "noisy + validation, converged",
}
"""The reference models in the figures."""

RELEASED: Mapping[str, Mapping[str, float]] = {
    "hyperclean-mnist": {"noisy": 83.99, "validation": 91.06, "clean": 92.52},
    "hyperclean-fashion": {"noisy": 81.71, "validation": 82.38, "clean": 84.47},
}
"""Test accuracies of the authors' reference models, from their files."""

TARGETS = {
    "hyperclean-mnist": {"test_accuracy": 91.8, "f1": 95.0},
    "hyperclean-fashion": {"test_accuracy": 83.5},
}
"""What BOME should reach."""

TARGET_TITLES = {"test_accuracy": "BOME's test accuracy", "f1": "F1 of the cleaning"}

TUNED = {"inner_steps": 1, "inner_lr": 0.03, "theta_lr": 0.03, "outer_lr": 1000.0, "eta": 0.5, "phi": "norm"}
"""BOME with settings beyond the authors' grid: of some twenty tried on MNIST, seed 0, the best on validation set 2."""

FURTHER = {"tuned": (TUNED, 1), "slower": ({**TUNED, "outer_lr": 300.0}, 2)}
"""Settings and how many times the usual number of steps. The slower v has a higher F1 and is not what validation set 2
prefers at equal steps."""


ABLATIONS = Ablations(
    fixed={"inner_steps": 1, "outer_lr": 1000.0},
    bome={"eta": 0.5},
    inner_lr=0.01,
    etas={"gap": (0.1, 0.5, 0.9), "norm": (0.1, 0.5, 0.9)},
    c_z=(0.001, 0.01, 0.1),
)


def _further(steps: int) -> dict[str, Mapping[str, Any]]:
    return {name: {**values, "steps": times * steps} for name, (values, times) in FURTHER.items()}


SMOKE = smoke(
    "hyperclean-digits",
    samples=(1_000, 200),
    ablations=ABLATIONS.of((1, 2), 1, 10, 5, 3),
    extra=_further(10),
)
QUICK = LearningProtocol(
    tasks=("hyperclean-mnist", "hyperclean-fashion"),
    twin="hyperclean-digits",
    outer_lrs=(10.0, 50.0, 100.0, 500.0, 1000.0),
    samples=(50_000, 5_000),
    ablations=ABLATIONS.of((1, 5, 10, 20), 1, 150, 75, 50),
    extra=_further(500),
)
PAPER = paper(
    QUICK, 110_000, 5_000, ablations=ABLATIONS.of((1, 5, 10, 20), 5, 5_000, 2_500, 1_666), extra=_further(5_000)
)
PROTOCOLS: Mapping[Preset, LearningProtocol] = {"smoke": SMOKE, "quick": QUICK, "paper": PAPER}


def references(task: str, seed: int, preset: Preset) -> dict[str, Numbers]:
    """Models trained without any learned weights, and what they reach."""
    split = split_of(task, seed)
    start = start_model(pool_of(task), seed)
    epochs, steps = {"smoke": (20, 20), "quick": (800, 150), "paper": (EPOCHS, 1000)}[preset]
    noisy, clean = together(split.train, split.validation), together(split.corrected, split.validation)
    validation = train_model(split.validation, split, start, epochs=epochs)
    models = {
        "noisy": train_model(noisy, split, start, ridge, epochs).model,
        "train+validation": minimise(lambda model: mean_loss(model, noisy) + ridge(model), start, steps),
        "validation": validation.model,
        "both validation sets": _after(together(split.validation, split.validation_2), start, validation.epoch),
        "clean": train_model(clean, split, start, epochs=epochs).model,
        "known noise": minimise(lambda model: _weighted(model, split) + ridge(model), start, steps),
    }
    return {name: judge(model, split) for name, model in models.items()}


def _after(samples: Samples, start: Model, epochs: int) -> Model:
    """The model after that many epochs."""
    path = descend(lambda model: mean_loss(model, samples), start, **PRETRAINING)
    return next(model for epoch, model in enumerate(path) if epoch >= epochs)


def _weighted(model: Model, split: Split) -> Tensor:
    """The inner loss with weight 1 for the samples whose labels are right and 0 for the others."""
    samples = split.train
    return samples.mean(split.clean * cross_entropies(scores(model, samples), samples.labels))


def _claims(comparison: Comparison) -> Iterator[Claim]:
    task, bome = comparison.task, comparison.entry("bome")
    for name, accuracy in RELEASED.get(task, {}).items():
        yield near(
            f"reference model “{name}” as released", task, comparison.reference(name, "test_accuracy"), accuracy, 0.5
        )
    for metric, target in TARGETS.get(task, {}).items():
        for entry, variant in ((bome, "selected"), *zip(comparison.extra, FURTHER, strict=True)):
            yield at_least(TARGET_TITLES[metric], task, variant, entry.last(metric), target)
    yield from common(comparison)
    low, high = (comparison.reference(name, "test_accuracy")[0] for name in ("validation", "clean"))
    reached = bome.last("test_accuracy")
    yield Claim(
        "BOME ends between “validation samples only” and “right labels + validation”",
        task,
        "selected",
        f"{low:.2f} < {points(reached)} < {high:.2f}",
        low < reached[0] < high + 0.1,
    )
    yield outer_variable_alone(
        "The learned weights alone, with θ solved afresh, beat training on noisy and validation samples together",
        comparison,
        "train+validation",
    )


HYPERCLEAN = LearningStudy(
    name="hyperclean",
    title="Data hyper-cleaning",
    lines=LINES,
    protocols=PROTOCOLS,
    references=references,
    claims=_claims,
    words={"further": "; ".join(f"“{name}”: {settings_in_words(values)}" for name, (values, _) in FURTHER.items())},
    cleaning=True,
)
