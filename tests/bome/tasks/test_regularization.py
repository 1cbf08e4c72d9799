"""Learnable regularisation, on the small digits that need no files, against formulas written anew in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bome.errors import ProblemError
from bome.oracles import AutogradOracle
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.tasks import regularization, regularization_digits
from tests.support.data_tasks import Array, images, losses, somewhere


def dense(documents: regularization.Documents) -> Array:
    found: Array = documents.words.x.to_dense().double().numpy()
    return found


def doubled(documents: regularization.Documents) -> regularization.Documents:
    return documents._replace(words=regularization.Sparse(*(m.double() for m in documents.words)))


def penalised(variant: str, v: Array, theta: Array) -> float:
    """g of the regularisation, from the authors' code and the paper."""
    train = regularization.split_of("regularization-digits", 0).train
    penalties = {
        "code": 0.5 * (theta**2 * np.exp(v)[:, None]).mean(),
        "squared": 0.5 * (theta**2 * np.exp(2 * v)[:, None]).mean(),
        "sum": 0.5 * (theta**2 * np.exp(v)[:, None]).sum(),
        "paper": np.linalg.norm(np.diag(np.exp(v)) @ theta) ** 2,
    }
    return float(losses(dense(train) @ theta, train.labels.numpy()).mean() + penalties[variant])


@pytest.mark.parametrize("variant", regularization.VARIANTS)
def test_the_losses_of_the_regularisation_are_those_of_the_paper(variant: str) -> None:
    task, split = regularization_digits(variant), regularization.split_of("regularization-digits", 0)
    v, theta = somewhere(task)
    g = task.problem.inner(v, theta, doubled(split.train))
    f = task.problem.outer(v, theta, doubled(split.validation))
    assert float(g) == pytest.approx(penalised(variant, v.numpy(), theta.numpy()), rel=1e-9)
    expected = losses(dense(split.validation) @ theta.numpy(), split.validation.labels.numpy()).mean()
    assert float(f) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("variant", regularization.VARIANTS)
def test_the_gradients_of_the_regularisation_are_slopes_of_the_formula(variant: str) -> None:
    task, split = regularization_digits(variant), regularization.split_of("regularization-digits", 0)
    v, theta = (x.requires_grad_() for x in somewhere(task))
    grads = torch.autograd.grad(task.problem.inner(v, theta, doubled(split.train)), (v, theta))
    draw = np.random.default_rng(2)
    along = [draw.normal(size=x.shape) for x in grads]
    slope = sum(float((g.numpy() * a).sum()) for g, a in zip(grads, along, strict=True))
    ends = [
        penalised(variant, *(x.detach().numpy() + h * a for x, a in zip((v, theta), along, strict=True)))
        for h in (1e-5, -1e-5)
    ]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


def test_documents_are_halved_within_each_class_and_all_used_once() -> None:
    split = regularization.split_of("regularization-digits", 0)
    pixels, labels = images()
    rows = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    for halves, which in (
        ((split.train, split.validation), slice(0, 1400)),
        ((split.test, split.validation_2), slice(1400, None)),
    ):
        counts = [np.bincount(half.labels.numpy(), minlength=10) for half in halves]
        assert np.abs(counts[0] - counts[1]).max() <= 1
        given = np.concatenate([np.c_[dense(half), half.labels.numpy()] for half in halves])
        wanted = np.c_[rows[which], labels[which]]
        one, other = (x[np.lexsort(x.round(5).T)] for x in (given, wanted))
        np.testing.assert_allclose(one, other, atol=1e-6)  # the same samples in another order
    other = regularization.split_of("regularization-digits", 1)
    assert not torch.equal(split.train.words.x.to_dense(), other.train.words.x.to_dense())


@pytest.fixture
def matrix() -> regularization.Sparse:
    draw = torch.Generator().manual_seed(0)
    full = torch.randn(5, 4, generator=draw, dtype=torch.float64) * (torch.rand(5, 4, generator=draw) < 0.5)
    from scipy.sparse import csr_array

    return regularization._sparse(csr_array(full.numpy()))


def test_the_sparse_product_is_a_product_with_right_first_and_second_derivatives(matrix: regularization.Sparse) -> None:
    theta = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(regularization.product(matrix, theta), matrix.x.to_dense() @ theta)

    def curved(theta: Tensor) -> Tensor:
        return regularization.product(matrix, theta).exp()

    assert torch.autograd.gradcheck(curved, theta)
    assert torch.autograd.gradgradcheck(curved, theta)


def test_the_gradient_of_v_needs_no_pass_back_through_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    backward = regularization._Product.backward

    def counted(ctx: Any, grad: Tensor) -> Any:
        passes.append(1)
        return backward(ctx, grad)

    monkeypatch.setattr(regularization._Product, "backward", staticmethod(counted))
    task, split = regularization_digits(), regularization.split_of("regularization-digits", 0)
    oracle, (v, theta) = AutogradOracle(task.problem), task.problem.point
    found = oracle.inner(v, theta, split.train, "v")
    assert passes == []
    # ∂g/∂v_j = exp(v_j) Σ_c θ_jc² / (2 · entries)
    assert torch.allclose(found.grad.v[0], v[0].exp() * theta[0].square().sum(1) / (2 * theta[0].numel()))
    oracle.inner(v, theta, split.train, "both")
    assert passes == [1]


def test_minibatches_of_documents_are_refused() -> None:
    made = plan("regularization-digits", "bome", {"batch": 10, "steps": 1})
    with pytest.raises(ProblemError, match="has no minibatches"):
        perform(made)


def test_the_inner_problem_of_the_regularisation_solved_afresh_has_no_slope() -> None:
    task, train = regularization_digits(), regularization.split_of("regularization-digits", 0).train
    assert task.resolve is not None
    v, start = torch.linspace(0, 1, 64), task.problem.point.theta
    (theta,) = (x.requires_grad_() for x in task.resolve((v,), start))
    (grad,) = torch.autograd.grad(task.problem.inner(v, theta, train), theta)
    (before,) = torch.autograd.grad(task.problem.inner(v, first := start[0].requires_grad_(), train), first)
    assert grad.abs().max() < 2e-4
    assert grad.norm() < 0.1 * before.norm()
