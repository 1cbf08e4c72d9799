r"""Batch normalisation whose second derivative costs as much as two first ones.

Methods that need products with a Hessian differentiate the gradient of a network once more. PyTorch does that for batch
normalisation with some forty passes over the features, which is two fifths of the time of such a product in a small
residual network; here it takes ten. Values and first derivatives are PyTorch's own, bit for bit.

Per channel, with the mean μ and s = (variance + ε)^(−½) of the n entries, x̂ = s (x − μ) and the projection
P(u) = u − mean(u) − x̂ mean(u x̂),

    y = γ x̂ + β,      y' = (x_, γ_, β_) = (γ s P(u), Σ u x̂, Σ u)   for a gradient u of y.

With a gradient (a, b, c) of y', p = s P(u) and r = s P(a), the gradient of y' is

    in u:   γ r + b x̂ + c
    in γ:   Σ a p
    in x:   (b − γ s mean(a x̂)) p − γ s mean(u x̂) r − (γ s / n) (Σ a p) x̂.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import batch_norm

from bome.errors import UnsupportedError


class BatchNorm(nn.BatchNorm2d):
    """As `torch.nn.BatchNorm2d` with scales, shifts and running statistics; differentiable twice, not more often."""

    def __init__(self, features: int) -> None:
        super().__init__(features)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised by the statistics of the batch in training, and by the running ones otherwise."""
        self._check_input_dim(x)
        if not self.training or x.numel() == x.shape[1]:  # PyTorch refuses a single entry, which has no statistics
            return super().forward(x)
        assert self.num_batches_tracked is not None  # noqa: S101 - running statistics are always kept here
        self.num_batches_tracked.add_(1)
        momentum = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        running = self.running_mean, self.running_var, momentum, self.eps
        y: Tensor = _Normalise.apply(x, self.weight, self.bias, *running)[0]  # type: ignore[no-untyped-call]
        return y


class _Normalise(Function):
    """(y, μ, s)."""

    @staticmethod
    def forward(x: Tensor, *parameters: Any) -> tuple[Tensor, Tensor, Tensor]:
        gamma, beta, running_mean, running_var, momentum, eps = parameters
        return torch.native_batch_norm(x, gamma, beta, running_mean, running_var, True, momentum, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, mean, s = output
        ctx.mark_non_differentiable(mean, s)
        ctx.save_for_backward(*inputs[:2], mean, s)

    @staticmethod
    def backward(ctx: Any, u: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (*_Gradient.apply(u, *ctx.saved_tensors), None, None, None, None)  # type: ignore[no-untyped-call]


class _Gradient(Function):
    """(x_, γ_, β_)."""

    @staticmethod
    def forward(u: Tensor, x: Tensor, gamma: Tensor, mean: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _gradient(u, x, gamma, mean, s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "this batch normalisation can be differentiated twice only: use torch.nn.BatchNorm2d"
            )
        u, x, gamma, mean, s = ctx.saved_tensors
        n, one = x.numel() // x.shape[1], torch.ones_like(gamma)
        p, u_x, _ = _gradient(u, x, one, mean, s)
        r, a_x, _ = _gradient(a, x, one, mean, s)
        a_p = (a * p).sum((0, 2, 3))
        weight = gamma * s / n
        in_u = _affine(x, mean, s, b, c).addcmul_(r, _of_channels(gamma))
        in_x = _affine(x, mean, s, -weight * a_p, None)
        in_x.addcmul_(p, _of_channels(b - weight * a_x)).addcmul_(r, _of_channels(-weight * u_x))
        return in_u, in_x, a_p, None, None


def _gradient(u: Tensor, x: Tensor, gamma: Tensor, mean: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """γ s P(u), Σ u x̂ and Σ u in one pass over the features."""
    gradient: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        u, x, gamma, None, None, mean, s, True, 0.0, [True, True, True]
    )
    return gradient


def _affine(x: Tensor, mean: Tensor, s: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """weight · x̂ + bias."""
    return batch_norm(x, mean, s**-2, weight, bias, training=False, eps=0.0)


def _of_channels(values: Tensor) -> Tensor:
    return values[:, None, None]
