"""Linear softmax models: scores, losses, and training them outside of any bilevel problem.

Scores have the classes in the first dimension, z = W Xᵀ + b: a batch of models then makes one wide product with the
data. A last feature that is always 1 takes the bias, and the affine scaling of features goes into the weights, so that
z is written once.

The product goes by blocks of samples. Matrix libraries leave threads idle in one product of a few rows with many
columns; blocks keep all of them at work, and each block stays in a core's cache.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bome.errors import ProblemError

Model = dict[str, Tensor]
"""`weight` of shape (classes, features) and `bias` of shape (classes,); without a bias it is tied to the weight of the
last feature."""


class Samples(NamedTuple):
    """Labelled samples.

    Several splits of one data set can share `x`, and with it the product W Xᵀ: each has its own labels, its own `share`
    of every sample in the mean loss (0 for samples outside of the split) and its own affine scaling of the features.

    Attributes:
        x: the features and a last one that is 1, of shape (n, d + 1), as `with_one` makes them.
        labels: the class of each, of shape (n,).
        share: the weight of each sample in the mean; None for 1/n.
        shift: what is subtracted from every feature; None for nothing.
        scale: what the features are then multiplied with.
    """

    x: Tensor
    labels: Tensor
    share: Tensor | None = None
    shift: Tensor | None = None
    scale: Tensor | None = None

    def mean(self, losses: Tensor) -> Tensor:
        """The mean of a quantity over the samples of the split."""
        return losses.mean() if self.share is None else losses @ self.share


def with_one(x: Tensor) -> Tensor:
    """The features with a last one that is 1."""
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


BLOCK = 1_000
"""The samples of a block."""

Kernel = Callable[[Tensor, Tensor], Tensor]


class _Product(torch.autograd.Function):
    """A product of rows with fixed data: linear in them, so that its derivative is the adjoint kernel.

    It can be differentiated any number of times. The rows of a batch of models go into one wide product.
    """

    @staticmethod
    def forward(kernel: Kernel, adjoint: Kernel, rows: Tensor, x: Tensor) -> Tensor:
        return kernel(rows, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Kernel, Kernel, Tensor, Tensor], output: Tensor) -> None:
        ctx.kernel, ctx.adjoint, _, x = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, None]:
        (x,) = ctx.saved_tensors
        return None, None, _Product.apply(ctx.adjoint, ctx.kernel, grad, x), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], kernel: Kernel, adjoint: Kernel, rows: Tensor, x: Tensor
    ) -> tuple[Tensor, int]:
        *_, dim, shared = in_dims
        if dim is None or shared is not None:
            raise ProblemError("models that run as a batch share their samples")
        rows = rows.movedim(dim, 0)
        wide = _Product.apply(kernel, adjoint, rows.flatten(0, 1), x)  # type: ignore[no-untyped-call]
        return wide.unflatten(0, rows.shape[:2]), 0


def _times(weight: Tensor, x: Tensor) -> Tensor:
    """W Xᵀ."""
    (rows, d), n = weight.shape, len(x)
    blocks, whole = n // BLOCK, n - n % BLOCK
    z = weight.new_empty(rows, n)
    by_block = z[:, :whole].view(rows, blocks, BLOCK).transpose(0, 1)
    by_block.copy_(torch.bmm(weight.expand(blocks, rows, d), x[:whole].view(blocks, BLOCK, d).mT))
    z[:, whole:] = weight @ x[whole:].T
    return z


def _combined(factors: Tensor, x: Tensor) -> Tensor:
    """A X, a combination of the samples for each row of A."""
    rows, (n, d) = len(factors), x.shape
    blocks, whole = n // BLOCK, n - n % BLOCK
    by_block = factors[:, :whole].reshape(rows, blocks, BLOCK).transpose(0, 1)
    return torch.bmm(by_block, x[:whole].view(blocks, BLOCK, d)).sum(dim=0) + factors[:, whole:] @ x[whole:]


def scores(model: Model, samples: Samples) -> Tensor:
    """z = W Xᵀ + b, of shape (classes, n)."""
    weight = model["weight"]
    bias = model["bias"] if "bias" in model else weight[:, -1]
    if samples.shift is not None and samples.scale is not None:
        weight = weight * samples.scale
        bias = bias - samples.shift * weight.sum(dim=1)
    rows = torch.cat([weight, bias[:, None]], dim=1)
    z: Tensor = _Product.apply(_times, _combined, rows, samples.x)  # type: ignore[no-untyped-call]
    return z


def cross_entropies(z: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each sample, from scores of shape (classes, n)."""
    return -z.log_softmax(dim=0).gather(0, labels[None])[0]


def accuracy(z: Tensor, labels: Tensor) -> float:
    """The share of samples whose highest score is that of their label, in percent."""
    return 100 * float((z.argmax(dim=0) == labels).float().mean())


class Best(NamedTuple):
    """The model with the lowest loss on held-out samples along a path.

    Attributes:
        model: that model.
        loss: its loss there.
        epoch: where on the path it was.
    """

    model: Model
    loss: float
    epoch: int


def descend(loss: Callable[[Model], Tensor], model: Model, lr: float, momentum: float) -> Iterator[Model]:
    """The path of gradient descent with momentum, without an end, from the model itself on."""
    live = {name: x.clone().requires_grad_() for name, x in model.items()}
    optimiser = torch.optim.SGD(live.values(), lr=lr, momentum=momentum)
    while True:
        yield {name: x.detach() for name, x in live.items()}
        optimiser.zero_grad()
        loss(live).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def lowest(path: Iterator[Model], held_out: Callable[[Model], Tensor], epochs: int, patience: int) -> Best:
    """The best of the first `epochs` models; the path is left once `patience` of them brought nothing better."""
    best = Best({}, float("inf"), 0)
    for epoch, model in enumerate(path):
        with torch.no_grad():
            loss = float(held_out(model))
        if loss < best.loss:
            best = Best({name: x.clone() for name, x in model.items()}, loss, epoch)
        if epoch == epochs or epoch - best.epoch >= patience:
            break
    return best


def minimise(loss: Callable[[Model], Tensor], model: Model, steps: int = 200, tolerance: float = 1e-6) -> Model:
    """The minimiser of a smooth convex loss by L-BFGS, from the model on."""
    live = {name: x.detach().clone().requires_grad_() for name, x in model.items()}
    optimiser = torch.optim.LBFGS(
        live.values(), max_iter=steps, history_size=20, tolerance_grad=tolerance, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss(live)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return {name: x.detach() for name, x in live.items()}
