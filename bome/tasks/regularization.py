"""Learnable regularisation: a penalty for each word of 20 Newsgroups or pixel of digits (section 5.3 of the paper).

f is the mean cross-entropy of a linear softmax model on validation documents; g the one on training documents plus a
penalty for each word: g = mean ℓ_i(θ) + ½ mean_{j,c} θ_jc² exp(v_j). Half of the test documents are validation set 2,
which chooses hyper-parameters.

The default is the authors' code; as printed the penalty is ‖diag(exp v) θ‖², and variants separate the two differences.
Products with the documents are sparse. ∇_v g needs no pass through them: no gradient flows from v into the scores.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import choose
from bome._typing import Leaves
from bome.core.trees import Pair
from bome.data import Constant, Data
from bome.data.digits import digits
from bome.data.parsed import keep
from bome.data.sets import Counts, newsgroup_counts
from bome.errors import ProblemError
from bome.problem import Problem
from bome.tasks.softmax import descend, lowest, minimise
from bome.tasks.task import Settings, Task

if TYPE_CHECKING:
    from scipy.sparse import csr_array

EPOCHS, PATIENCE = 1000, 200
"""θ_0 is the best of 1,000 epochs on validation set 2, or the best so far once 200 brought nothing better."""

SETTINGS = Settings(
    steps=1000,
    inner_steps=10,
    inner_lr=100.0,
    outer_lr=100.0,
    theta_lr=100.0,
    eta=1e-4,
    phi="gap",
    momentum=0.9,
    inner_momentum=0.9,
)


@dataclass(frozen=True)
class Variant:
    """What distinguishes the variants of the task.

    Attributes:
        power: p of the penalty θ_jc² exp(p v_j): 1 as in the code, 2 as printed.
        reduction: the "mean" over all entries of θ, as in the code, or the "sum", as printed.
        factor: of this: ½ as in the code, 1 as printed.
    """

    power: int = 1
    reduction: Literal["mean", "sum"] = "mean"
    factor: float = 0.5


VARIANTS = {
    "code": Variant(),
    "squared": Variant(power=2),
    "sum": Variant(reduction="sum"),
    "paper": Variant(power=2, reduction="sum", factor=1.0),
}

_BASELINE = {"Q": 10, "neumann_lr": 100.0}
SUGGESTED: Mapping[str, Mapping[str, Any]] = {
    "stocbio": _BASELINE,
    "mrbo": _BASELINE,
    "vrbo": {**_BASELINE, "p": 1},
    "bvfsm": {"c_z": 1e-6, "c_ln": 0.01, "inner_momentum": 0.0},
    "penalty": {"lam": 0.01, "epsilon": 0.01, "gamma": 0.01},
}
"""What the authors set for these methods."""


class Sparse(NamedTuple):
    """A sparse matrix by rows and by columns, so that products with it and with its transpose are both fast."""

    x: Tensor
    xt: Tensor

    def swapped(self) -> "Sparse":
        """The transpose."""
        return Sparse(self.xt, self.x)


class _Product(torch.autograd.Function):
    """X θ for a fixed sparse X; differentiable any number of times."""

    @staticmethod
    def forward(ctx: Any, matrix: Sparse, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.x @ dense

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, product(ctx.matrix.swapped(), grad.contiguous())


def product(matrix: Sparse, dense: Tensor) -> Tensor:
    """X θ."""
    found: Tensor = _Product.apply(matrix, dense)  # type: ignore[no-untyped-call]
    return found


class Documents(NamedTuple):
    """Documents as counts of words, and their classes."""

    words: Sparse
    labels: Tensor


class Split(NamedTuple):
    """Stratified halves of the training documents for g and f, and of the test documents for choosing and judging."""

    train: Documents
    validation: Documents
    validation_2: Documents
    test: Documents
    classes: int


def mean_loss(theta: Tensor, documents: Documents) -> Tensor:
    """The mean cross-entropy."""
    return torch.nn.functional.cross_entropy(product(documents.words, theta), documents.labels)


def judge(theta: Tensor, split: Split) -> dict[str, float]:
    """Losses and accuracies of a model on validation set 2 and on test."""
    numbers = {}
    for name, documents in (("val2", split.validation_2), ("test", split.test)):
        z = product(documents.words, theta)
        numbers[f"{name}_loss"] = float(torch.nn.functional.cross_entropy(z, documents.labels))
        numbers[f"{name}_accuracy"] = 100 * float((z.argmax(dim=1) == documents.labels).float().mean())
    return numbers


def regularization_20news(variant: str = "code", start: str = "pretrained", seed: int = 0) -> Task:
    """Newsgroup posts, a penalty for each of their 130,107 words.

    Args:
        variant: "code" (½ mean θ² exp v), "squared" (exp 2v), "sum" (½ Σ) or "paper" (Σ θ² exp 2v, as printed).
        start: "pretrained", the model of the epoch with the lowest loss on validation set 2.
        seed: of the split and the pretraining.
    """
    return _task("regularization-20news", variant, start, seed)


def regularization_digits(variant: str = "code", start: str = "pretrained", seed: int = 0) -> Task:
    """The small digits that come with scikit-learn, a penalty for each pixel: for tests.

    Args:
        variant: as in regularization-20news.
        start: "pretrained".
        seed: of the split and the pretraining.
    """
    return _task("regularization-digits", variant, start, seed)


def _digit_counts() -> Counts:
    """Images as rows of length 1."""
    from scipy.sparse import csr_array

    data = digits()
    rows = [torch.nn.functional.normalize(x.flatten(1).float()).numpy() for x in (data.train, data.test)]
    train, test = (csr_array(x) for x in rows)
    return Counts(train, data.train_labels, test, data.test_labels, data.classes)


SOURCES: Mapping[str, tuple[Callable[[], Counts], float]] = {
    "regularization-20news": (newsgroup_counts, 100.0),
    "regularization-digits": (_digit_counts, 1.0),
}
"""Where the documents of each task come from, and a step size for θ."""


@lru_cache(maxsize=4)
def split_of(name: str, seed: int) -> Split:
    """The split of a task that a seed draws."""
    data = SOURCES[name][0]()
    draw = torch.Generator().manual_seed(seed)

    def halves(words: "csr_array", labels: Tensor) -> list[Documents]:
        return [Documents(_sparse(words[rows.numpy()]), labels[rows]) for rows in _stratified(labels, draw)]

    train, validation = halves(data.train, data.train_labels)
    test, validation_2 = halves(data.test, data.test_labels)
    return Split(train, validation, validation_2, test, len(data.classes))


def _stratified(labels: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two halves in which each class has its share, in random order."""
    order = torch.randperm(len(labels), generator=draw)
    order = order[labels[order].argsort(stable=True)]  # by class, at random within a class
    halves = order[::2], order[1::2]
    first, second = (half[torch.randperm(len(half), generator=draw)] for half in halves)
    return first, second


def _sparse(matrix: "csr_array") -> Sparse:
    def tensor(m: "csr_array") -> Tensor:
        starts, indices, data = (
            torch.from_numpy(x) for x in (m.indptr.astype("int32"), m.indices.astype("int32"), m.data)
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(starts, indices, data, size=m.shape, check_invariants=False)

    return Sparse(tensor(matrix.tocsr()), tensor(matrix.T.tocsr()))


def _task(name: str, variant: str, start: str, seed: int) -> Task:
    form = choose(f"variant of {name}", variant, VARIANTS)
    choose(f"start of {name}", start, {"pretrained": None})
    split, lr = split_of(name, seed), SOURCES[name][1]
    features = split.train.words.x.shape[1]

    def outer(v: Tensor, theta: Tensor, batch: Documents) -> Tensor:
        return mean_loss(theta, batch)

    def inner(v: Tensor, theta: Tensor, batch: Documents) -> Tensor:
        penalty = theta.square().sum(dim=1) @ (form.power * v).exp()
        entries = theta.numel() if form.reduction == "mean" else 1
        return mean_loss(theta, batch) + form.factor / entries * penalty

    def streams(method: Any, settings: Settings) -> Data:
        if settings.batch or settings.outer_batch or getattr(method, "inner_parts", 1) > 1:
            raise ProblemError(f"{name} has no minibatches: its sparse products take all documents at once")
        return Data(inner=Constant(split.train), outer=Constant(split.validation))

    def resolve(v: Leaves, theta: Leaves) -> Leaves:
        best = minimise(lambda m: inner(v[0], m["theta"], split.train), {"theta": theta[0]})
        return tuple(best.values())

    theta = pretrain(name, seed)
    problem = Problem(outer, inner, torch.zeros(features), theta)

    def observe(point: Pair) -> dict[str, float]:
        return judge(point.theta[0], split)

    return Task(
        name=name,
        variant=variant,
        start=start,
        problem=problem,
        settings=replace(SETTINGS, inner_lr=lr, theta_lr=lr),
        suggested=SUGGESTED,
        streams=streams,
        observe=observe,
        resolve=resolve,
        seed=seed,
    )


def random_model(split: Split, seed: int) -> Tensor:
    """Normal entries of variance 2 / classes."""
    draw = torch.Generator().manual_seed(seed + 1)
    return torch.randn(split.train.words.x.shape[1], split.classes, generator=draw).mul((2 / split.classes) ** 0.5)


def pretrain(name: str, seed: int) -> Tensor:
    """θ_0 by gradient descent without a penalty, as in the authors' code; kept in the cache."""
    split, lr = split_of(name, seed), SOURCES[name][1]

    def make() -> dict[str, Any]:
        first = {"theta": random_model(split, seed)}
        path = descend(lambda model: mean_loss(model["theta"], split.train), first, lr, 0.9)
        return dict(lowest(path, lambda model: mean_loss(model["theta"], split.validation_2), EPOCHS, PATIENCE).model)

    theta: Tensor = keep(f"{name}-start-{lr:g}-{seed}", make)["theta"]
    return theta
