"""Linear softmax models: scores, losses, and training them outside of any bilevel problem.

Scores have the classes in the first dimension, z = W Xᵀ + b: a batch of models then makes one wide product with the
data, and a product with data stored feature by feature reads memory in order. A last feature that is always 1 takes
the bias, and the affine scaling of features goes into the weights, so that z is written once.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

Model = dict[str, Tensor]
"""`weight` of shape (classes, features) and `bias` of shape (classes,); without a bias it is tied to the weight of the
last feature."""


class Samples(NamedTuple):
    """Labelled samples.

    Several splits of one data set can share `x`, and with it the product W Xᵀ: each has its own labels, its own `share`
    of every sample in the mean loss (0 for samples outside of the split) and its own affine scaling of the features.

    Attributes:
        x: the features and a last one that is 1, of shape (n, d + 1), as `columns` makes them.
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


def columns(x: Tensor) -> Tensor:
    """The features with a last one that is 1, stored feature by feature."""
    return torch.cat([x.T, x.new_ones(1, len(x))]).T


def scores(model: Model, samples: Samples) -> Tensor:
    """z = W Xᵀ + b, of shape (classes, n)."""
    weight = model["weight"]
    bias = model["bias"] if "bias" in model else weight[:, -1]
    if samples.shift is not None and samples.scale is not None:
        weight = weight * samples.scale
        bias = bias - samples.shift * weight.sum(dim=1)
    return torch.cat([weight, bias[:, None]], dim=1) @ samples.x.T


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
