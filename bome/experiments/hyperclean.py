"""Data hyper-cleaning on MNIST and FashionMNIST: the figures of the paper for all methods, and what they leave out."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from bome.experiments.base import Claim, Findings, Preset, Report
from bome.experiments.comparison import Ablation, Comparison, Numbers, Protocol, compare
from bome.experiments.comparison_report import (
    accuracy,
    at_least,
    decided,
    first_or_level,
    near,
    one_inner_step,
    rows_of,
    sections,
)
from bome.experiments.page import command
from bome.experiments.trials import default_workers
from bome.tasks.hyperclean import (
    EPOCHS,
    PRETRAINING,
    Split,
    judged,
    mean_loss,
    pool_of,
    ridge,
    split_of,
    start_model,
    together,
    trained,
)
from bome.tasks.softmax import Model, Samples, cross_entropies, descend, minimise, scores

ABOUT = (
    "Half of the labels of 50,000 training images are drawn at random. A weight for each image is learned so that a "
    "linear model trained on the weighted images does well on 5,000 clean validation images. Every method has its T "
    "and its step size of v chosen on seed 0 by the loss on a second validation set; test images only report. All runs "
    "have the same budget of gradient-equivalents, and each seed its own split, noise and start."
)

METHODS = (
    "bome", "bsg1", "bvfsm", "penalty", "itd", "reverse", "aid-cg", "aid-fp", "stocbio", "vrbo", "mrbo",
    "f2sa", "pbgd", "soba", "saba", "meha", "darts", "sama",
)  # fmt: skip
"""All but those for minimax games."""

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

TARGETS = {"hyperclean-mnist": (91.8, 95.0), "hyperclean-fashion": (83.5, 0.0)}
"""Test accuracy and F1 that BOME should reach."""

TUNED = {"inner_steps": 1, "inner_lr": 0.03, "theta_lr": 0.03, "outer_lr": 1000.0, "eta": 0.5, "phi": "norm"}
"""BOME with settings beyond the authors' grid: of some twenty tried on MNIST, seed 0, the best on validation set 2."""

FURTHER = {"tuned": TUNED, "slower": {**TUNED, "theta_lr": 0.02, "outer_lr": 300.0, "eta": 2.0}}
"""Also a slower v, of higher F1 among these: not the one that validation set 2 prefers."""


def _ablations(steps: int, seeds: int, all_t: tuple[int, ...]) -> tuple[Ablation, ...]:
    base = {"inner_steps": 1, "outer_lr": 1000.0, "eta": 0.5}
    return (
        Ablation("T", "bome", base, {f"T = {t}": {"inner_steps": t} for t in all_t}, steps, seeds),
        Ablation(
            "α", "bome", base, {f"α = {a:g} × 0.01": {"inner_lr": 0.01 * a} for a in (0.25, 0.5, 1, 2)}, steps, seeds
        ),
        Ablation(
            "η and φ",
            "bome",
            base,
            {
                f"η = {eta:g}, φ = {sign}": {"eta": eta, "phi": phi}
                for phi, sign in (("gap", "ηq̂"), ("norm", "η‖∇q̂‖²"))
                for eta in (0.1, 0.5, 0.9)
            },
            steps,
            seeds,
        ),
        Ablation(
            "coefficients of BVFSM",
            "bvfsm",
            {"inner_steps": 1, "outer_lr": 1000.0},
            {f"c_z {c:g}, c_ln {ln:g}": {"c_z": c, "c_ln": ln} for c in (0.001, 0.01, 0.1) for ln in (0.01, 0.1, 1.0)},
            steps // 2,
            1,
        ),
        Ablation(
            "coefficients of Penalty",
            "penalty",
            {"inner_steps": 1, "outer_lr": 1000.0},
            {
                f"λ {lam:g}, γ {gamma:g}": {"lam": lam, "gamma": gamma}
                for lam in (0.001, 0.01, 0.1)
                for gamma in (0.01, 0.1, 1.0)
            },
            steps // 3,
            1,
        ),
    )  # fmt: skip


PROTOCOLS: Mapping[Preset, Protocol] = {
    "smoke": Protocol(
        tasks=("hyperclean-digits",),
        twin="hyperclean-digits",
        methods=METHODS,
        inner_steps=(1,),
        outer_lrs=(10.0,),
        search=15,
        budget=30,
        most_steps=20,
        seeds=(1, 2),
        samples=(1_000, 200),
        ablations=tuple(ablation.first(2) for ablation in _ablations(10, 1, (1, 2))),
        extra={name: {**each, "steps": 10} for name, each in FURTHER.items()},
    ),
    "quick": Protocol(
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
        ablations=_ablations(150, 1, (1, 5, 10, 20)),
        extra={name: {**each, "steps": 500} for name, each in FURTHER.items()},
    ),
    "paper": Protocol(
        tasks=("hyperclean-mnist", "hyperclean-fashion"),
        twin="hyperclean-digits",
        methods=METHODS,
        inner_steps=(1, 5, 10, 20),
        outer_lrs=(10.0, 50.0, 100.0, 500.0, 1000.0),
        search=110_000,
        budget=110_000,
        most_steps=5_000,
        seeds=(5, 5),
        samples=(50_000, 5_000),
        ablations=_ablations(5_000, 5, (1, 5, 10, 20)),
        extra={name: {**each, "steps": 5_000} for name, each in FURTHER.items()},
    ),
}


class Hyperclean:
    """The hyper-cleaning experiment."""

    name = "hyperclean"

    def carry_out(self, preset: Preset, folder: Path, report: Report) -> Findings:
        """Run it; what is finished in `folder` is read, not run again."""
        protocol = PROTOCOLS[preset]
        if preset == "paper":
            protocol = replace(protocol, workers=default_workers())
        found = compare(protocol, lambda task, seed: references(task, seed, preset), folder, report)
        made_by = command(self.name, preset)
        return Findings(
            title="Data hyper-cleaning",
            about=ABOUT,
            sections=tuple(section for each in found for section in sections(each, LINES, cleaning=True)),
            claims=decided((claim for each in found for claim in _claims(each)), preset),
            rows=tuple(row for each in found for row in rows_of(each, preset, made_by, [*protocol.extra])),
            notes=_notes(protocol),
        )


HYPERCLEAN = Hyperclean()


def references(task: str, seed: int, preset: Preset) -> dict[str, Numbers]:
    """Models trained without any learned weights, and what they reach."""
    split = split_of(task, seed)
    start = start_model(pool_of(task), seed)
    epochs, steps = {"smoke": (20, 20), "quick": (800, 150), "paper": (EPOCHS, 1000)}[preset]
    noisy, clean = together(split.train, split.validation), together(split.corrected, split.validation)
    validation = trained(split.validation, split, start, epochs=epochs)
    models = {
        "noisy": trained(noisy, split, start, ridge, epochs).model,
        "train+validation": minimise(lambda model: mean_loss(model, noisy) + ridge(model), start, steps),
        "validation": validation.model,
        "both validation sets": _after(together(split.validation, split.validation_2), start, validation.epoch),
        "clean": trained(clean, split, start, epochs=epochs).model,
        "known noise": minimise(lambda model: _weighted(model, split) + ridge(model), start, steps),
    }
    return {name: judged(model, split) for name, model in models.items()}


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
    if task in TARGETS:
        target, f1 = TARGETS[task]
        for entry, variant in ((bome, "selected"), *zip(found.extra, FURTHER, strict=True)):
            yield at_least("BOME's test accuracy", task, variant, entry.last("test_accuracy"), target)
            yield at_least("F1 of the cleaning", task, variant, entry.last("f1"), f1)
    yield first_or_level(found)
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


def _notes(protocol: Protocol) -> tuple[str, ...]:
    return (
        f"Search on seed 0: T in {protocol.inner_steps}, step sizes of v in {protocol.outer_lrs}, "
        f"{protocol.search:g} gradient-equivalents for each; then {protocol.budget:g} for each seed "
        f"(at most {protocol.most_steps} outer steps), {protocol.seeds[0]} seeds, {protocol.seeds[1]} for BOME.",
        "All other settings are those of the authors' code: step size 0.01 for θ, momentum 0.9, φ = ηq̂ with η = 0.1. "
        "Further settings of BOME, beyond their grid: "
        + "; ".join(f"“{name}”: " + ", ".join(f"{key} = {value}" for key, value in each.items())
                    for name, each in FURTHER.items())
        + ". Of some twenty tried by hand on MNIST, seed 0, “tuned” has the lowest loss on validation set 2, “slower” "
        "a higher F1. Test accuracy was in view when they were tried.",
        "An evaluation of f or g with its gradient counts as one gradient-equivalent, a second-order product as two, "
        "one on a minibatch as its part of the samples.",
        "“known noise” is the inner problem with weight 1 for right labels and 0 for wrong ones: the best that weights "
        "can do in this model.",
    )  # fmt: skip
