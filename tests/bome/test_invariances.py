"""What a step of BOME must not depend on: constants, units, names, orders. Powers of two change no bit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from bome import BOME, AutogradOracle, Batches, GradientDescent, Problem
from bome._typing import Loss
from bome.core.barrier import Phi
from bome.methods.base import Step
from tests.support.samples import blobs, direction, mlp, plain_loss, weighted_loss

CASES = 50
DTYPES = (torch.float64, torch.float32)


class Setting(NamedTuple):
    """The numbers that a law changes: factors and constants of f and g, η and α, and which φ it is about."""

    phi: Phi
    factor_f: float = 1.0
    factor_g: float = 1.0
    eta: float = 0.5
    lr: float = 0.05
    constant_f: float = 0.0
    constant_g: float = 0.0


class Law(NamedTuple):
    """How a change by c = 2^k acts on λ and δ."""

    changed: Callable[[Setting, float], Setting]
    lam: Callable[[float], float]
    delta: Callable[[float], float]
    phi: Phi = "norm"


def _one(c: float) -> float:
    return 1.0


LAWS = {
    # λ = max(η − ⟨∇f, ∇q̂⟩/‖∇q̂‖², 0) and the path of the look-ahead depends on αg only.
    "g·c, α/c, η/c": Law(lambda s, c: s._replace(factor_g=c, lr=s.lr / c, eta=s.eta / c), lambda c: 1 / c, _one),
    "f·c, η·c": Law(lambda s, c: s._replace(factor_f=c, eta=s.eta * c), lambda c: c, lambda c: c),
    "f·c, g·c, α/c": Law(lambda s, c: s._replace(factor_f=c, factor_g=c, lr=s.lr / c), _one, lambda c: c),
    # λ = max((ηq̂ − ⟨∇f, ∇q̂⟩)/‖∇q̂‖², 0).
    "gap: g·c, α/c": Law(lambda s, c: s._replace(factor_g=c, lr=s.lr / c), lambda c: 1 / c, _one, "gap"),
    "gap: f·c, g·c, α/c, η·c": Law(
        lambda s, c: s._replace(factor_f=c, factor_g=c, lr=s.lr / c, eta=s.eta * c), _one, lambda c: c, "gap"
    ),
    "f + c": Law(lambda s, c: s._replace(constant_f=c), _one, _one),
    "g + c": Law(lambda s, c: s._replace(constant_g=c), _one, _one),
}


def _quartic(generator: torch.Generator, dtype: torch.dtype) -> tuple[Loss, Loss]:
    a, b, matrix = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in ((4,), (3,), (4, 3))
    )

    def f(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - a).square().sum() + 0.5 * (v - b).square().sum()

    def g(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return 0.5 * (theta - matrix @ v).square().sum() + 0.1 * theta.square().square().sum()

    return f, g


def _problem(kind: str, seed: int, dtype: torch.dtype, s: Setting) -> tuple[Problem, Batches]:
    generator = torch.Generator().manual_seed(seed)
    f: Loss
    g: Loss
    if kind == "network":
        x, y = blobs(dtype=dtype)
        f, g = plain_loss, weighted_loss
        v: Any = torch.randn(16, generator=generator, dtype=torch.float64).to(dtype)
        theta: Any = mlp(dtype, seed)
        batches = Batches(inner=((x[:16], y[:16], torch.arange(16)),), outer=((x[16:], y[16:]),))
    else:
        f, g = _quartic(generator, dtype)
        v = torch.randn(3, generator=generator, dtype=torch.float64).to(dtype)
        theta = torch.randn(4, generator=generator, dtype=torch.float64).to(dtype)
        batches = Batches()
    return Problem(
        lambda v, t, batch: s.factor_f * f(v, t, batch) + s.constant_f,
        lambda v, t, batch: s.factor_g * g(v, t, batch) + s.constant_g,
        v,
        theta,
    ), batches


def _step(kind: str, seed: int, dtype: torch.dtype, s: Setting) -> Step:
    problem, batches = _problem(kind, seed, dtype, s)
    return direction(AutogradOracle(problem), BOME(GradientDescent(s.lr, 3), eta=s.eta, phi=s.phi), batches)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scaling_and_shifting_the_losses_changes_no_bit(law: str, dtype: torch.dtype) -> None:
    """Multiplication by c = 2^k is exact, so the laws hold in every bit: 50 random problems, |k| ≤ 15."""
    changed, lam, delta, phi = LAWS[law]
    generator = torch.Generator().manual_seed(11)
    active = 0
    for case in range(CASES):
        kind = "network" if case % 4 == 0 else "quartic"
        c = 2.0 ** int(torch.randint(-15, 16, (), generator=generator))
        base = Setting(phi)
        one, other = _step(kind, case, dtype, base), _step(kind, case, dtype, changed(base, c))
        assert one.info.lam is not None
        assert other.info.lam is not None
        assert torch.equal(other.info.lam, one.info.lam * lam(c))
        pairs = zip((*other.direction.v, *other.direction.theta), (*one.direction.v, *one.direction.theta), strict=True)
        assert all(torch.equal(x, y * delta(c)) for x, y in pairs)
        active += int(one.info.lam > 0)
    assert active > 0


def test_a_factor_that_is_no_power_of_two_changes_bits_but_not_the_step() -> None:
    """The control: the equality above is not true of anything at all."""
    base = Setting("norm")
    changed = 0
    for seed in range(10):  # which of them keep their bits depends on the processor
        one = _step("quartic", seed, torch.float64, base).direction.v[0]
        other = _step("quartic", seed, torch.float64, LAWS["f·c, η·c"].changed(base, 3.3)).direction.v[0]
        changed += not torch.equal(other, one * 3.3)
        torch.testing.assert_close(other, one * 3.3, rtol=1e-13, atol=1e-13)
    assert changed > 0


@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_the_order_of_the_samples_does_not_matter(phi: Phi) -> None:
    for seed in range(20):
        problem, batches = _problem("network", seed, torch.float64, Setting(phi))
        order = torch.randperm(16, generator=torch.Generator().manual_seed(seed))
        x, y, rows = batches.inner[0]
        shuffled = Batches(inner=((x[order], y[order], rows[order]),), outer=batches.outer)
        method = BOME(GradientDescent(0.05, 3), phi=phi)
        one, other = (direction(AutogradOracle(problem), method, b) for b in (batches, shuffled))
        for x, y in zip(
            (*one.direction.v, *one.direction.theta), (*other.direction.v, *other.direction.theta), strict=True
        ):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_splitting_a_variable_into_several_tensors_does_not_matter(phi: Phi) -> None:
    def split(whole: Problem) -> Problem:
        v, theta = whole.point.v[0].clone(), whole.point.theta[0].clone()
        return Problem(
            lambda v, t, b: whole.outer(torch.cat([v["x"], v["y"]]), torch.cat(t), b),
            lambda v, t, b: whole.inner(torch.cat([v["x"], v["y"]]), torch.cat(t), b),
            {"x": v[:1].clone(), "y": v[1:].clone()},
            [theta[:2].clone(), theta[2:].clone()],
        )

    for seed in range(20):
        whole, batches = _problem("quartic", seed, torch.float64, Setting(phi))
        method = BOME(GradientDescent(0.05, 3), phi=phi)
        one, other = (direction(AutogradOracle(p), method, batches) for p in (whole, split(whole)))
        assert torch.allclose(torch.cat(other.direction.v), one.direction.v[0], rtol=1e-12, atol=1e-12)
        assert torch.allclose(torch.cat(other.direction.theta), one.direction.theta[0], rtol=1e-12, atol=1e-12)
