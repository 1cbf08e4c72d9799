"""The models that an estimator fits, behind one interface."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from bome.errors import ProblemError
from bome.estimators.models import LinearFitter, NetworkFitter, as_tensor, curvature, square_length


def data() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    return random.standard_normal((90, 4)) + 3 * np.eye(3, 4)[y], y


def network(features: int, classes: int) -> torch.nn.Module:
    return torch.nn.Linear(features, classes)


@pytest.mark.parametrize("fitter", [LinearFitter(0.01), NetworkFitter(network, 0)])
def test_a_live_model_starts_where_the_fitted_one_is(fitter: Any) -> None:
    x, y = data()
    model = fitter.fit(x, np.eye(3)[y], np.ones(90))
    assert (model.logits(x).argmax(axis=1) == y).mean() > 0.7
    live = fitter.live(model, x, 0)
    dtype = next(live.module.parameters()).dtype
    np.testing.assert_allclose(live.module(as_tensor(x, dtype)).detach(), model.logits(x), rtol=1e-4, atol=1e-4)
    assert all(lighter != fitter for lighter in fitter.lighter())


def test_a_network_leaves_the_random_numbers_of_the_caller_alone() -> None:
    x, y = data()
    before = torch.get_rng_state()
    first, again = (NetworkFitter(network, 3).fit(x, np.eye(3)[y], np.ones(90)) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.logits(x), again.logits(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda features, classes: "no module", "must give a torch.nn.Module, got str"),
        (lambda features, classes: torch.nn.Linear(features + 1, classes), "cannot take rows of 4 features"),
        (lambda features, classes: torch.nn.Linear(features, 2), "must give 3 logits per row"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(make: Any, message: str) -> None:
    x, y = data()
    with pytest.raises(ProblemError, match=message):
        NetworkFitter(make, 0).fit(x, np.eye(3)[y], np.ones(90))


def test_sparse_and_dense_rows_are_the_same_tensor_and_have_the_same_length() -> None:
    x, _ = data()
    torch.testing.assert_close(as_tensor(sparse.csr_matrix(x)).to_dense(), as_tensor(x))
    assert square_length(sparse.csr_matrix(x)) == pytest.approx(square_length(x)) == pytest.approx((x**2).sum() / 90)
    assert square_length(np.zeros((3, 2))) == 1.0


def test_the_curvature_bounds_the_hessian_of_the_loss() -> None:
    x = np.random.default_rng(0).standard_normal((50, 4))
    weights = torch.zeros(5 * 3)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        logits = torch.as_tensor(np.c_[x, np.ones(50)], dtype=torch.float32) @ flat.view(5, 3)
        return torch.nn.functional.cross_entropy(logits, torch.arange(50) % 3)

    hessian: Any = torch.autograd.functional.hessian(loss, weights)  # type: ignore[no-untyped-call]
    assert float(torch.linalg.eigvalsh(hessian)[-1]) <= curvature(x, 0)
