"""Data hyper-cleaning on MNIST and FashionMNIST: the figures of the paper for all methods, and what they leave out."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from bome.tasks.hyperclean import EPOCHS, PRETRAINING, judge, mean_loss, ridge, start_model, train_model
from bome.tasks.softmax import Model, Samples, cross_entropies, descend, minimise, scores
from bome.tasks.splits import Split, pool_of, split_of, together
from bome_studies.learning.claims import accuracy, at_least, first_or_level, near, one_inner_step
from bome_studies.learning.comparison import Comparison, Numbers, Protocol
from bome_studies.learning.study import METHODS, Ablations, LearningExperiment, settings_in_words, smoke
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
    ablations=ABLATIONS.made((1, 2), 1, 10, 5, 3),
    extra=_further(10),
)
QUICK = Protocol(
    tasks=("hyperclean-mnist", "hyperclean-fashion"),
    twin="hyperclean-digits",
    methods=METHODS,
    inner_steps=(1, 10),
    outer_lrs=(10.0, 50.0, 100.0, 500.0, 1000.0),
    search=300,
    budget=1500,
    most_steps=500,
    seeds=(3, 5),
    samples=(50_000, 5_000),
    ablations=ABLATIONS.made((1, 5, 10, 20), 1, 150, 75, 50),
    extra=_further(500),
)
PAPER = replace(
    QUICK,
    inner_steps=(1, 5, 10, 20),
    search=110_000,
    budget=110_000,
    most_steps=5_000,
    seeds=(5, 5),
    ablations=ABLATIONS.made((1, 5, 10, 20), 5, 5_000, 2_500, 1_666),
    extra=_further(5_000),
)
PROTOCOLS: Mapping[Preset, Protocol] = {"smoke": SMOKE, "quick": QUICK, "paper": PAPER}


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


def _claims(found: Comparison) -> Iterator[Claim]:
    task, bome = found.task, found.entry("bome")
    for name, told in RELEASED.get(task, {}).items():
        yield near(f"reference model “{name}” as released", task, found.reference(name, "test_accuracy"), told, 0.5)
    for metric, target in TARGETS.get(task, {}).items():
        for entry, variant in ((bome, "selected"), *zip(found.extra, FURTHER, strict=True)):
            yield at_least(TARGET_TITLES[metric], task, variant, entry.last(metric), target)
    yield first_or_level(found, bome, "selected")
    yield first_or_level(found, found.extra[0], "tuned")
    yield one_inner_step(found)
    low, high = (found.reference(name, "test_accuracy")[0] for name in ("validation", "clean"))
    reached = bome.last("test_accuracy")
    yield Claim(
        "BOME ends between “validation samples only” and “right labels + validation”",
        task,
        "selected",
        f"{low:.2f} < {accuracy(reached)} < {high:.2f}",
        low < reached[0] < high + 0.1,
    )
    afresh = bome.last("test_accuracy", resolved=True)
    plain = found.reference("train+validation", "test_accuracy")
    yield Claim(
        "The learned weights alone, with θ solved afresh, beat training on noisy and validation samples together",
        "not in the paper",
        "selected",
        f"{accuracy(afresh)} against {accuracy(plain)}",
        afresh[0] > plain[0],
    )


HYPERCLEAN = LearningExperiment(
    name="hyperclean",
    title="Data hyper-cleaning",
    about="Half of the labels of 50,000 training images are drawn at random. A weight for each image is learned so "
    "that a linear model trained on the weighted images does well on 5,000 clean validation images.",
    lines=LINES,
    protocols=PROTOCOLS,
    references=references,
    claims=_claims,
    notes=(
        "All other settings are those of the authors' code: step size 0.01 for θ, momentum 0.9, φ = ηq̂ with η = 0.1. "
        "Further settings of BOME, beyond their grid: "
        + "; ".join(f"“{name}”: {settings_in_words(values)}" for name, (values, _) in FURTHER.items())
        + ". Of some twenty tried by hand on MNIST, seed 0, “tuned” has the lowest loss on validation set 2 after 500 "
        "steps; “slower”, with twice the steps, a higher F1. Test accuracy was in view when they were tried.",
        "Longer runs do not reach more: with the step sizes 300, 1,000 and 3,000 of v, all else as “tuned”, the test "
        "accuracy on MNIST, seed 0, stays below 91.3 % up to 2,500 steps, and the loss on validation set 2 begins to "
        "rise after 900 steps with 1,000 and after 400 with 3,000: the weights then fit the 5,000 validation images.",
        "An evaluation of f or g with its gradient counts as one gradient-equivalent, a second-order product as two, "
        "one on a minibatch as its part of the samples.",
        "“known noise” is the inner problem with weight 1 for right labels and 0 for wrong ones: the best that weights "
        "can do in this model.",
    ),
    cleaning=True,
)
