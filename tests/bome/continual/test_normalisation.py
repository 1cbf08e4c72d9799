"""Batch normalisation with a fast second derivative: beside PyTorch's own, and beside finite differences."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradgradcheck

from bome.continual.normalisation import BatchNorm
from bome.errors import UnsupportedError

LAYOUTS = (torch.contiguous_format, torch.channels_last)


def pair(dtype: torch.dtype) -> tuple[BatchNorm, nn.BatchNorm2d]:
    """Ours and PyTorch's, with the same parameters, none of which is 0 or 1."""
    ours, theirs = BatchNorm(5).to(dtype), nn.BatchNorm2d(5, dtype=dtype)
    with torch.no_grad():
        for x in ours.parameters():
            x.normal_()
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    return ours, theirs


def features(layout: torch.memory_format, dtype: torch.dtype) -> Tensor:
    x = 3 * torch.randn(4, 5, 3, 2, dtype=dtype) + 1
    return x.to(memory_format=layout).requires_grad_()


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_first_derivatives_and_statistics_are_those_of_pytorch_bit_for_bit(
    layout: torch.memory_format, momentum: float | None
) -> None:
    torch.manual_seed(0)
    x, modules = features(layout, torch.float32), pair(torch.float32)
    found = []
    for module in modules:
        module.momentum = momentum
        y = module(x)
        gradient = torch.autograd.grad((y**3).sum(), (x, *module.parameters()))
        module.eval()
        found.append((y, *gradient, *module.state_dict().values(), module(x)))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_second_derivatives_are_those_of_finite_differences(layout: torch.memory_format) -> None:
    torch.manual_seed(1)
    x, (module, _) = features(layout, torch.float64), pair(torch.float64)

    def values(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y: Tensor = torch.func.functional_call(module, {"weight": weight, "bias": bias}, (x,))
        return y

    assert gradgradcheck(values, (x, *module.parameters()))


def test_a_product_with_the_hessian_is_that_of_pytorch_even_where_a_scale_is_zero() -> None:
    torch.manual_seed(2)
    x, modules = features(torch.channels_last, torch.float64), pair(torch.float64)
    direction = [torch.randn_like(each) for each in (x, *modules[0].parameters())]
    found = []
    for module in modules:
        with torch.no_grad():
            module.weight[0] = 0.0
        leaves = (x, *module.parameters())
        gradient = torch.autograd.grad(module(x).relu().pow(3).sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(gradient, leaves, direction))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_third_derivative_is_refused() -> None:
    x, (module, _) = features(torch.channels_last, torch.float64), pair(torch.float64)
    (gradient,) = torch.autograd.grad(module(x).pow(3).sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="twice only"):
        torch.autograd.grad(gradient.pow(2).sum(), x, create_graph=True)


@pytest.mark.parametrize("shape", [(4, 5, 3), (1, 5, 1, 1)])
def test_what_pytorch_refuses_is_refused_alike(shape: tuple[int, ...]) -> None:
    messages = []
    for module in pair(torch.float32):
        with pytest.raises(ValueError, match=r"(?i)expected") as caught:
            module(torch.zeros(shape))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
