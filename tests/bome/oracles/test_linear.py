"""Products with transposed Jacobians: against dense ones, counted, and zero where nothing flows."""

from collections import Counter
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from bome.oracles.linear import Linear

V = torch.tensor([0.3, -0.7], dtype=torch.float64)
S = torch.tensor([0.5, 1.1, -0.2], dtype=torch.float64)
Z = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def curve(v: Tensor, s: Tensor) -> Tensor:
    """A map of five numbers to three."""
    return torch.stack([(v[0] * s).sum(), v[1].exp() * s[2].sin(), s.prod() + v.sum()])


def linear(counts: Counter[str], requires_grad: bool = True) -> Linear:
    v, s = (x.clone().requires_grad_(requires_grad) for x in (V, S))
    return Linear((curve(v, s),), (v,), (s,), counts)


@pytest.mark.parametrize("wrt", ["both", "v", "theta"])
def test_products_are_those_of_the_dense_jacobians(wrt: Literal["both", "v", "theta"]) -> None:
    counts: Counter[str] = Counter()
    by_v, by_s = jacobian(curve, (V, S))  # type: ignore[no-untyped-call]
    for _ in range(2):  # the graph lives on
        pulled = linear(counts).pull((Z,), wrt)
    torch.testing.assert_close(pulled.v, (by_v.T @ Z,) if wrt != "theta" else ())
    torch.testing.assert_close(pulled.theta, (by_s.T @ Z,) if wrt != "v" else ())
    assert counts == {"xvp": 2 * (wrt != "theta"), "hvp": 2 * (wrt != "v")}


def test_the_value_has_no_graph_and_one_graph_serves_many_products() -> None:
    one = linear(Counter())
    assert not one.value[0].requires_grad
    torch.testing.assert_close(one.value[0], curve(V, S))
    torch.testing.assert_close(one.pull((2 * Z,)).theta[0], 2 * one.pull((Z,)).theta[0])


def test_a_constant_map_has_zero_products() -> None:
    pulled = linear(Counter(), requires_grad=False).pull((Z,))
    assert torch.equal(pulled.v[0], torch.zeros_like(V))
    assert torch.equal(pulled.theta[0], torch.zeros_like(S))
