"""stocBiO: its series with independent batches, as coded, and on the full batch; batches and cost."""

import numpy as np
import pytest
import torch
from torch.optim import SGD, RMSprop

from bome import Batches, GradientDescent, PerSample, Problem, Stepper, TorchOptim
from bome.errors import ProblemError
from bome.methods.stocbio import StocBiO
from tests.support.problems import bed, finite_sum, full, one_step
from tests.support.sums import batches_of, estimate, g_theta, in_numpy


@pytest.mark.parametrize("terms", [0, 1, 3, 20])
@pytest.mark.parametrize("draw", ["independent", "one"])
def test_on_the_full_batch_it_is_a_neumann_series(terms: int, draw: str) -> None:
    """h = f_v + AᵀH z, z = η Σ_{q=0}^{Q} (I−ηH)^q f_θ(θ_T)."""
    q, eta = bed(), 0.2
    method = StocBiO(GradientDescent(0.3, 4), Q=terms, neumann_lr=eta, draw=draw)  # type: ignore[arg-type]
    found = one_step(q.problem, method).direction.v[0]
    f_theta = q.after(0.3, 4) - q.a
    z = eta * torch.stack([q.power(eta, i) @ f_theta for i in range(terms + 1)]).sum(0)
    torch.testing.assert_close(found, q.v - q.b + q.A.T @ q.H @ z, rtol=1e-12, atol=1e-12)


def test_as_published_the_series_lacks_its_first_term_and_a_factor() -> None:
    """z = η(I−ηH)^Q f_θ + Σ_{q=1}^{Q} (I−ηH)^q f_θ, about 1/η times too large."""
    q, eta, terms = bed(), 0.2, 3
    published = StocBiO(GradientDescent(0.3, 4), Q=terms, neumann_lr=eta, **StocBiO.variants["published"])
    found = one_step(q.problem, published).direction.v[0]
    f_theta = q.after(0.3, 4) - q.a
    u = [q.power(eta, i) @ f_theta for i in range(terms + 1)]
    z = eta * u[-1] + torch.stack(u[1:]).sum(0)
    torch.testing.assert_close(found, q.v - q.b + q.A.T @ q.H @ z, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("published", [False, True])
def test_every_part_has_the_batch_that_the_docstring_gives_it(published: bool) -> None:
    """Inner steps S_0 .. S_{T−1}, Hessians S_T .. S_{T+Q−1}, B on S_{T+Q}; as published S_T for all of the latter."""
    sums, eta, lr, T, Q = finite_sum(), 0.25, 0.2, 3, 4  # noqa: N806
    options = StocBiO.variants["published"] if published else {}
    method = StocBiO(GradientDescent(lr, T), Q=Q, neumann_lr=eta, **options)
    assert (method.inner_batches, method.outer_batches) == ((T + 1, 1) if published else (T + Q + 1, 1))
    batches = batches_of(sums, method, np.random.default_rng(3))
    step = one_step(sums.problem, method, batches=batches)
    inner, (outer,) = in_numpy(batches.inner), in_numpy(batches.outer)
    v, theta = (x[0].numpy() for x in sums.problem.point)
    for t in range(T):
        theta = theta - lr * g_theta(v, theta, inner[t])
    hessians = inner[T:] * Q if published else inner[T : T + Q]
    expected = estimate(v, theta, hessians, inner[-1], outer, eta, published)
    np.testing.assert_allclose(step.direction.v[0].numpy(), expected, rtol=1e-12, atol=1e-12)
    assert step.new_theta is not None
    np.testing.assert_allclose(step.new_theta[0].numpy(), theta, rtol=1e-13)


def test_independent_batches_make_the_estimate_unbiased() -> None:
    """E Π(I − ηH_q) = (I − ηH̄)^Q: the mean over all 4² choices of (S_1, S_2) is the series with the mean Hessian.

    Q = 1; f and the inner step see the same batch throughout, so that all else is fixed.
    """
    sums, eta = finite_sum(count=4), 0.25
    method = StocBiO(GradientDescent(0.2, 1), Q=1, neumann_lr=eta)
    fixed, found = sums.inner(0), []
    for i in range(4):
        for j in range(4):
            batches = Batches(inner=(fixed, sums.inner(i), sums.inner(j)), outer=(fixed,))
            found.append(one_step(sums.problem, method, batches=batches).direction.v[0])
    v, theta = (x[0] for x in sums.problem.point)
    theta = theta - 0.2 * sums.H[0] @ (theta - sums.A[0] @ v)
    f_theta = theta - sums.a[0]
    z = eta * (2 * f_theta - eta * sums.H.mean(0) @ f_theta)
    cross = (sums.A.mT @ sums.H).mean(0)
    torch.testing.assert_close(torch.stack(found).mean(0), v - sums.b[0] + cross @ z, rtol=1e-12, atol=1e-12)


def test_the_default_eta_is_the_inner_step_size() -> None:
    q = bed()
    implicit, explicit = StocBiO(GradientDescent(0.3, 2)), StocBiO(GradientDescent(0.3, 2), neumann_lr=0.3)
    directions = [one_step(q.problem, method).direction.v for method in (implicit, explicit)]
    torch.testing.assert_close(directions[0], directions[1], rtol=0, atol=0)


def test_a_row_per_sample_is_fine() -> None:
    """Only the rows of the step's batches move."""
    table = PerSample(10, 0.5, dtype=torch.float64)

    def inner(w: torch.Tensor, theta: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return (w * (theta - batch).square()).mean() + 0.1 * theta.square()

    def outer(w: torch.Tensor, theta: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return (theta - 3).square()

    problem = Problem(outer, inner, table, torch.zeros((), dtype=torch.float64))
    table.index = lambda batch: batch.long()
    method = StocBiO(GradientDescent(0.3, 1), Q=1)
    stepper = Stepper(problem, method, SGD([table.values], 0.1))
    stepper.step_on(
        Batches(inner=tuple(torch.tensor([i, i + 1.0], dtype=torch.float64) for i in (0, 3, 6)), outer=(None,))
    )
    moved = (table.values != 0.5).nonzero().flatten().tolist()
    assert moved == [6, 7]  # only B, on the last batch, has a derivative by v


def test_a_step_costs_what_is_declared() -> None:
    for draw, extra in (("independent", 6), ("one", 1)):
        q, method = bed(), StocBiO(GradientDescent(0.3, 4), Q=5, draw=draw)  # type: ignore[arg-type]
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, 0.1))
        for _ in range(3):
            stepper.step_on(full(method))
        assert method.cost == {"g": 4 + extra, "f": 1, "hvp": 5, "xvp": 1}
        assert stepper.counts == {kind: 3 * n for kind, n in method.cost.items()}


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ProblemError, match="Q must be a whole number of at least 0"):
        StocBiO(GradientDescent(0.1), Q=-1)
    with pytest.raises(ProblemError, match="neumann_lr"):
        StocBiO(GradientDescent(0.1), neumann_lr=0.0)
    with pytest.raises(ProblemError, match="TorchOptim has no step size to take for the Neumann series"):
        StocBiO(TorchOptim(lambda p: RMSprop(p)))
    with pytest.raises(ProblemError, match="series must be one of"):
        StocBiO(GradientDescent(0.1), series="half")  # type: ignore[arg-type]
