"""Data hyper-cleaning: a weight for each training sample, half of which have random labels (section 5.2 of the paper).

f is the mean cross-entropy of a linear softmax model on 5,000 clean validation samples, g the weighted one on the
50,000 training samples: g = (1/n) Σ_i clip(v_i, 0, 1) ℓ_i(θ) + 0.001‖W‖². A further 5,000 samples ("validation set 2")
choose hyper-parameters, and the 10,000 test samples tell how good the choice was.

The default is the authors' code, except that the bias is free; the other differences between their text and their code
are variants. Every seed draws its own split, noise and pretrained start, where the authors load one fixed file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.barrier import Phi
from bome.core.trees import Pair
from bome.data import Constant, Data, FixedBatches, Minibatches, Stream
from bome.data.parsed import keep
from bome.problem import Batches, Problem, either
from bome.projections import box
from bome.tasks.softmax import (
    Best,
    Model,
    Samples,
    accuracy,
    cross_entropies,
    descend,
    lowest,
    minimise,
    scores,
    with_one,
)
from bome.tasks.splits import Pool, Split, split_of, together
from bome.tasks.task import Settings, Stack, Task

RIDGE = 0.001
"""The factor of ‖W‖² in g."""

PRETRAINING = {"lr": 0.01, "momentum": 0.9}
"""Gradient descent towards θ_0, as in the authors' code."""

EPOCHS, PATIENCE = 5000, 200
"""The authors take the best of 5,000 epochs, which is about the 20th; the search ends 200 epochs after it."""


@dataclass(frozen=True)
class Variant:
    """What distinguishes the variants of the task.

    Attributes:
        bias: "free", or "tied" to the weight of the last pixel, as in the authors' code.
        reduction: of the weighted losses in g: the "mean", as in the code, or the "sum", as printed.
        pretrained_on: θ_0 is trained on the noisy samples and the validation set, as in the code, or as printed on the
            noisy samples alone.
        eta: η.
        phi: φ.
    """

    bias: Literal["free", "tied"] = "free"
    reduction: Literal["mean", "sum"] = "mean"
    pretrained_on: Literal["both", "noisy"] = "both"
    eta: float = 0.1
    phi: Phi = "gap"

    def settings(self, n: int) -> Settings:
        """The defaults of a run with n training samples; where g sums over them, its step sizes are n times smaller."""
        code = replace(SETTINGS, eta=self.eta, phi=self.phi)
        if self.reduction == "mean":
            return code
        return replace(code, inner_lr=code.inner_lr / n, theta_lr=code.theta_lr / n, outer_lr=1.0)


SETTINGS = Settings(steps=5000, inner_steps=10, inner_lr=0.01, outer_lr=100.0, theta_lr=0.01, momentum=0.9)
"""Those of the authors' code; η and φ depend on the variant."""

VARIANTS = {
    "code": Variant(),
    "tied": Variant(bias="tied"),
    "sum": Variant(reduction="sum"),
    "paper": Variant(reduction="sum", pretrained_on="noisy", eta=0.5, phi="norm"),
}

_NEUMANN = {"Q": 3, "neumann_lr": 0.1}
_MOMENTUM = {"inner_momentum": 0.9}

SUGGESTED: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("bsg1", "itd", "reverse", "aid-cg", "aid-fp"), _MOMENTUM),
    "stocbio": {**_MOMENTUM, **_NEUMANN, "batch": 1000, "outer_batch": 1000},
    "vrbo": {**_NEUMANN, "batch": 2000, "outer_batch": 200},
    "mrbo": {**_NEUMANN, "batch": 1000, "outer_batch": 1000},
    "bvfsm": {"c_z": 0.01, "c_ln": 1.0},
    "penalty": {"lam": 0.01, "epsilon": 0.01, "gamma": 0.01},
}
"""What the authors set for these methods."""


def ridge(model: Model) -> Tensor:
    """0.001‖W‖²."""
    return RIDGE * model["weight"].square().sum()


def mean_loss(model: Model, samples: Samples) -> Tensor:
    """The mean cross-entropy."""
    return samples.mean(cross_entropies(scores(model, samples), samples.labels))


def start_model(pool: Pool, seed: int, bias: Literal["free", "tied"] = "free") -> Model:
    """Uniform weights, as a linear layer of torch starts with."""
    features = pool.pixels.shape[1]
    draw, bound = torch.Generator().manual_seed(seed + 1), features**-0.5
    model = {"weight": (torch.rand(pool.classes, features, generator=draw) * 2 - 1) * bound}
    return model if bias == "tied" else {**model, "bias": (torch.rand(pool.classes, generator=draw) * 2 - 1) * bound}


def train_model(
    samples: Samples,
    split: Split,
    model: Model,
    penalty: Callable[[Model], Tensor] | None = None,
    epochs: int = EPOCHS,
) -> Best:
    """The model with the lowest loss on validation set 2 along gradient descent with momentum."""

    def loss(model: Model) -> Tensor:
        plain = mean_loss(model, samples)
        return plain if penalty is None else plain + penalty(model)

    path = descend(loss, model, **PRETRAINING)
    return lowest(path, lambda model: mean_loss(model, split.validation_2), epochs, PATIENCE)


def judge(model: Model, split: Split) -> dict[str, float]:
    """Losses and accuracies of a model on validation set 2 and on test."""
    numbers = {}
    for name, samples in (("val2", split.validation_2), ("test", split.test)):
        z = scores(model, samples)
        numbers[f"{name}_loss"] = float(cross_entropies(z, samples.labels).mean())
        numbers[f"{name}_accuracy"] = accuracy(z, samples.labels)
    return numbers


def score_weights(weights: Tensor, clean: Tensor) -> dict[str, float]:
    """How well the samples with weights above ½ are those with right labels, in percent."""
    above = weights > 0.5
    right = float((above & clean).sum())
    recall, precision = right / (float(clean.sum()) + 1e-4), right / (float(above.sum()) + 1e-4)
    f1 = 2 * precision * recall / (precision + recall + 1e-4)
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}


def hyperclean_mnist(variant: str = "code", start: str = "pretrained", seed: int = 0) -> Task:
    """Handwritten digits, 50,000 of them with noisy labels.

    Args:
        variant: "code" (with a free bias), "tied" (bias tied to the last pixel's weight), "sum" (g sums over samples)
            or "paper" (as printed: g sums, θ_0 is trained on the noisy samples only, φ = η‖∇q̂‖²).
        start: "pretrained", the model of the epoch with the lowest loss on validation set 2.
        seed: of the split, the noise and the pretraining.
    """
    return _task("hyperclean-mnist", variant, start, seed)


def hyperclean_fashion(variant: str = "code", start: str = "pretrained", seed: int = 0) -> Task:
    """Pictures of clothes; everything else as in `hyperclean_mnist`.

    Args:
        variant: as in hyperclean-mnist.
        start: "pretrained".
        seed: of the split, the noise and the pretraining.
    """
    return _task("hyperclean-fashion", variant, start, seed)


def hyperclean_digits(variant: str = "code", start: str = "pretrained", seed: int = 0) -> Task:
    """The 1,797 small digits that come with scikit-learn: for tests, and where nothing can be downloaded.

    Args:
        variant: as in hyperclean-mnist.
        start: "pretrained".
        seed: of the split, the noise and the pretraining.
    """
    return _task("hyperclean-digits", variant, start, seed)


def _task(name: str, variant: str, start: str, seed: int) -> Task:
    form = choose(f"variant of {name}", variant, VARIANTS)
    choose(f"start of {name}", start, {"pretrained": None})
    split = split_of(name, seed)
    n = len(split.rows)

    def outer(v: Tensor, theta: Model, batch: Any) -> Tensor:
        return mean_loss(theta, _samples(batch))

    def inner(v: Tensor, theta: Model, batch: Any) -> Tensor:
        samples, rows = _samples(batch), getattr(batch, "rows", None)
        weights = v.clamp(0, 1) if rows is None else v.clamp(0, 1)[rows]
        weighted = samples.mean(weights * cross_entropies(scores(theta, samples), samples.labels))
        return (n * weighted if form.reduction == "sum" else weighted) + ridge(theta)

    model = _pretrain(name, form, split, seed)
    problem = Problem(outer, inner, torch.full((n,), 0.5), model, project_v=box(0, 1))

    def observe(point: Pair) -> dict[str, float]:
        return {**judge(problem.theta.seen(point.theta), split), **score_weights(point.v[0], split.clean)}

    def resolve(v: Leaves, theta: Leaves) -> Leaves:
        best = minimise(lambda m: inner(v[0], m, split.train), problem.theta.seen(theta))
        return tuple(best.values())

    def streams(method: Any, settings: Settings) -> Data:
        return Data(
            inner=_stream(split.train, settings.batch, getattr(method, "inner_parts", 1), seed),
            outer=_stream(split.validation, settings.outer_batch, getattr(method, "outer_parts", 1), seed + 1),
        )

    def stack(tasks: Sequence[Task]) -> Stack:
        return _stacked(tasks, [split_of(name, task.seed) for task in tasks])

    return Task(
        name=name,
        variant=variant,
        start=start,
        problem=problem,
        settings=form.settings(n),
        resolve=resolve,
        suggested=SUGGESTED,
        streams=streams,
        observe=observe,
        stack=stack,
        seed=seed,
    )


def _pretrain(name: str, form: Variant, split: Split, seed: int) -> Model:
    """θ_0, kept in the cache."""

    def make() -> dict[str, Any]:
        samples = split.train if form.pretrained_on == "noisy" else together(split.train, split.validation)
        return dict(train_model(samples, split, start_model(split.pool, seed, form.bias), ridge).model)

    return keep(f"{name}-start-{form.bias}-{form.pretrained_on}-{seed}", make)


def _samples(batch: Any) -> Samples:
    return batch if isinstance(batch, Samples) else Samples(*batch.data)


def _stream(samples: Samples, size: int, parts: int, seed: int) -> Stream:
    """All samples at once, those of a fixed partition, or random minibatches."""
    if parts > 1:
        return FixedBatches((samples.x, samples.labels), parts, seed)
    if not size or size >= len(samples.labels):
        return Constant(samples)
    return Minibatches((samples.x, samples.labels), size, seed)


def _stacked(tasks: Sequence[Task], splits: Sequence[Split]) -> Stack:
    """Runs on several splits of one pool, which share the product with its images."""
    pool, first = splits[0].pool, tasks[0].problem
    used = torch.unique(torch.cat([split.rows for split in splits]))  # sorted
    mean, scale = torch.stack([split.mean for split in splits]), torch.stack([split.scale for split in splits])

    def samples(rows: Tensor, labels: list[Tensor], parts: list[Tensor]) -> Samples:
        share = torch.stack([split.share_of(part)[rows] for split, part in zip(splits, parts, strict=True)])
        return Samples(with_one(pool.pixels[rows]), torch.stack(labels), share, mean, scale)

    train = samples(
        used,
        [pool.labels.index_copy(0, split.rows, split.noisy)[used] for split in splits],
        [split.rows for split in splits],
    )
    checked = torch.unique(torch.cat([split.first for split in splits]))
    validation = samples(checked, [pool.labels[checked]] * len(splits), [split.first for split in splits])
    dims = Samples(None, 0, 0, 0, 0)  # type: ignore[arg-type]
    theta = {
        name: torch.stack([task.problem.theta.value[name] for task in tasks]) for name in first.theta.keys
    }  # fmt: skip
    return Stack(
        Problem(
            either(first.outer, 1, dims),
            either(first.inner, 1, dims),
            torch.full((len(tasks), len(used)), 0.5),
            theta,
            project_v=box(0, 1),
        ),
        Data(inner=Constant(train), outer=Constant(validation)),
        Batches(inner=(dims,), outer=(dims,)),
        tuple(torch.searchsorted(used, split.rows) for split in splits),
    )
