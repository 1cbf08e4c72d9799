"""Conjugate gradients and Neumann series against dense linear algebra."""

import pytest
import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.linalg import conjugate_gradients, neumann, neumann_published


def system(n: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """H with curvatures 0.5 .. 2 and b."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64)).Q
    h = axes @ torch.diag(torch.linspace(0.5, 2, n, dtype=torch.float64)) @ axes.T
    return (h + h.T) / 2, torch.randn(n, generator=generator, dtype=torch.float64)


class Product:
    """z ↦ Hz on two leaves, of shapes (1, 1) and (n−1,); counts its calls."""

    def __init__(self, h: Tensor) -> None:
        self.h, self.calls = h, 0

    def __call__(self, z: Leaves) -> Leaves:
        self.calls += 1
        return split(self.h @ join(z))


def split(z: Tensor) -> Leaves:
    return z[:1].reshape(1, 1), z[1:]


def join(z: Leaves) -> Tensor:
    return torch.cat([x.reshape(-1) for x in z])


def test_conjugate_gradients_are_exact_after_n_steps() -> None:
    """Also with more steps than that: the iterate that met the tolerance is stored, and later steps change nothing."""
    h, b = system()
    exact = torch.linalg.solve(h, b)
    for steps in (4, 5, 10, 50):
        product = Product(h)
        z = conjugate_gradients(product, split(b), steps)
        assert product.calls == steps
        torch.testing.assert_close(join(z), exact, rtol=1e-12, atol=1e-13)


def test_the_iterate_that_meets_the_tolerance_is_returned_and_not_the_one_before() -> None:
    """With tolerance τ the result is the first of the iterates z_1, z_2, ... whose residual is below τ."""
    h, b = system(n=6)
    iterates = [join(conjugate_gradients(Product(h), split(b), steps)) for steps in range(1, 7)]
    residuals = [float((b - h @ z).norm()) for z in iterates]
    for tolerance in (0.3, 0.1, 0.01):
        first = next(i for i, r in enumerate(residuals) if r <= tolerance)
        found = join(conjugate_gradients(Product(h), split(b), 6, tolerance))
        torch.testing.assert_close(found, iterates[first], rtol=0, atol=0)


def test_conjugate_gradients_fall_at_the_rate_of_the_condition_number() -> None:
    """‖z_K − z‖_H ≤ 2((√κ−1)/(√κ+1))^K ‖z‖_H, here with κ = 100."""
    generator = torch.Generator().manual_seed(1)
    axes = torch.linalg.qr(torch.randn(40, 40, generator=generator, dtype=torch.float64)).Q
    h = axes @ torch.diag(torch.linspace(0.01, 1, 40, dtype=torch.float64)) @ axes.T
    b = torch.randn(40, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(h, b)
    for steps in (1, 3, 10, 20, 30):
        error = join(conjugate_gradients(Product(h), split(b), steps)) - exact
        assert float(error @ h @ error) ** 0.5 <= 2 * (9 / 11) ** steps * float(exact @ h @ exact) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conjugate_gradients_stop_where_the_curvature_vanishes(dtype: torch.dtype) -> None:
    """H = diag(1, 0), b = (a, c): the first step has α = (a² + c²)/a², the second direction is in the null space."""
    h, b = torch.diag(torch.tensor([1.0, 0.0], dtype=dtype)), torch.tensor([0.7, -0.3], dtype=dtype)
    for steps in (1, 2, 20):
        z = join(conjugate_gradients(Product(h), split(b), steps))
        torch.testing.assert_close(z, b * (0.58 / 0.49), rtol=1e-5, atol=0)
    negative = conjugate_gradients(Product(-torch.eye(2, dtype=dtype)), split(b), 5)
    assert not join(negative).any()
    zero = conjugate_gradients(Product(torch.eye(2, dtype=dtype)), split(torch.zeros(2, dtype=dtype)), 5)
    assert not join(zero).any()


@pytest.mark.parametrize("terms", [0, 1, 3, 10])
def test_neumann_series_are_what_they_say(terms: int) -> None:
    """η Σ_{q=0}^{Q} (I−ηH)^q b, and as coded η(I−ηH)^Q b + Σ_{q=1}^{Q} (I−ηH)^q b."""
    h, b = system()
    eta = 0.3
    powers = [torch.linalg.matrix_power(torch.eye(4, dtype=b.dtype) - eta * h, q) @ b for q in range(terms + 1)]
    product = Product(h)
    right = eta * torch.stack(powers).sum(0)
    torch.testing.assert_close(join(neumann(product, split(b), eta, terms)), right, rtol=1e-12, atol=1e-13)
    assert product.calls == terms
    coded = eta * powers[-1] + (torch.stack(powers[1:]).sum(0) if terms else 0)
    torch.testing.assert_close(join(neumann_published(product, split(b), eta, terms)), coded, rtol=1e-12, atol=1e-13)


def test_a_neumann_series_tends_to_the_solution_at_its_rate() -> None:
    """The error is (I−ηH)^{Q+1} H⁻¹b: it falls by 1 − ημ a term, ημ = 0.2."""
    h, b = system()
    exact = torch.linalg.solve(h, b)
    errors = [float((join(neumann(Product(h), split(b), 0.4, q)) - exact).norm()) for q in (40, 80)]
    assert abs((errors[1] / errors[0]) ** (1 / 40) - 0.8) <= 1e-4
