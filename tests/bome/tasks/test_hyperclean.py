"""The tasks on data, on the small digits that need no files, against formulas written anew in NumPy."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.oracles import AutogradOracle
from bome.runs.perform import solve
from bome.runs.registry import plan
from bome.tasks import ON_DATA, TASKS, Task, hyperclean, hyperclean_digits, regularization, regularization_digits
from bome.tasks.hyperclean import cleaning, judged, mean_loss, ridge, split_of, start_model, together, trained
from bome.tasks.softmax import Samples

Array = NDArray[np.float64]


def losses(z: Array, labels: Any) -> Array:
    """Cross-entropies of scores of shape (n, classes)."""
    found: Array = scipy.special.logsumexp(z, axis=1) - z[np.arange(len(z)), labels]
    return found


def images() -> tuple[Array, NDArray[np.int64]]:
    """All digits with pixels between 0 and 1, and their labels."""
    found = load_digits()
    return np.round(found.images.reshape(-1, 64) * (255 / 16)) / 255, found.target


def double(samples: Samples) -> Samples:
    return samples._replace(x=samples.x.double())


def somewhere(task: Task, seed: int = 3) -> tuple[Tensor, Any]:
    """A random point in float64: v inside its box, and θ in the form of the task."""
    draw = torch.Generator().manual_seed(seed)
    v = torch.rand(task.problem.v.leaves[0].shape, generator=draw, dtype=torch.float64)
    leaves = [
        x.detach().double() + 0.1 * torch.randn(x.shape, generator=draw).double() for x in task.problem.theta.leaves
    ]
    return v, task.problem.theta.seen(tuple(leaves))


# --- hyper-cleaning ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def code() -> Task:
    return hyperclean_digits()


def scaled(seed: int = 0) -> tuple[Array, Array, Any]:
    """All images scaled as those of the split, the split's training rows, and the split."""
    split = split_of("hyperclean-digits", seed)
    pixels, _ = images()
    train = pixels[split.rows.numpy()]
    return (pixels - train.mean()) / (train.std(ddof=1) + 1e-4), split.rows.numpy(), split


def inner_of(variant: str, v: Array, weight: Array, bias: Array) -> float:
    """g of hyper-cleaning, from the paper and the authors' code."""
    x, rows, split = scaled()
    each = np.clip(v, 0, 1) * losses(x[rows] @ weight.T + bias, split.noisy.numpy())
    total = each.sum() if variant in ("sum", "paper") else each.mean()
    return float(total + 0.001 * (weight**2).sum())


def test_a_split_divides_all_images_into_disjoint_parts_and_leaves_test_alone() -> None:
    split = split_of("hyperclean-digits", 0)
    parts = [split.rows, split.first, split.second]
    assert [len(part) for part in parts] == [1000, 200, 200]
    assert sorted(torch.cat(parts).tolist()) == list(range(1400))
    pixels, labels = images()
    assert torch.equal(split.pool.test, torch.from_numpy(pixels[1400:]).float())
    assert split.test.labels.tolist() == labels[1400:].tolist()
    assert split.labels.tolist() == labels[split.rows.numpy()].tolist()
    assert split.validation.labels.tolist() == labels[split.first.numpy()].tolist()


def test_half_of_the_training_labels_are_drawn_anew_from_all_classes() -> None:
    wrong = [int((split_of("hyperclean-digits", seed).noisy != split_of("hyperclean-digits", seed).labels).sum())
             for seed in range(6)]  # fmt: skip
    assert max(wrong) <= 500
    # 500 labels are drawn, 9 of 10 of them wrong: 450 on average, with a deviation of 6.7 for each seed.
    assert np.mean(wrong) == pytest.approx(450, abs=4 * 6.7 / np.sqrt(6))
    split = split_of("hyperclean-digits", 0)
    drawn = split.noisy[~split.clean]
    assert set(drawn.tolist()) == set(range(10))
    assert torch.equal(split.corrected.labels, split.labels)
    assert torch.equal(split.validation.labels, split.pool.labels[split.first])


def test_each_seed_has_a_split_noise_and_start_of_its_own_and_always_the_same() -> None:
    first, second = split_of("hyperclean-digits", 0), split_of("hyperclean-digits", 1)
    again = hyperclean.Split(first.pool, 0)
    assert torch.equal(first.rows, again.rows)
    assert torch.equal(first.noisy, again.noisy)
    assert not torch.equal(first.rows, second.rows)
    assert not torch.equal(first.rows.sort().values, second.rows.sort().values)
    assert not torch.equal(first.clean, second.clean)
    one, other = (start_model(first.pool, seed)["weight"] for seed in (0, 1))
    assert not torch.equal(one, other)
    assert one.abs().max() <= 1 / 8


def test_pixels_are_scaled_by_the_mean_and_deviation_of_the_training_set_alone() -> None:
    x, rows, split = scaled()
    for samples, which in ((split.train, rows), (split.validation, split.first), (split.validation_2, split.second)):
        np.testing.assert_allclose(samples.x[:, :-1].numpy(), x[which], atol=2e-6)
        assert torch.equal(samples.x[:, -1], torch.ones(len(samples.x)))
    np.testing.assert_allclose(split.test.x[:, :-1].numpy(), x[1400:], atol=2e-6)


@pytest.mark.parametrize("variant", hyperclean.VARIANTS)
def test_the_losses_of_hyper_cleaning_are_those_of_the_paper(variant: str) -> None:
    task, (x, _, split) = hyperclean_digits(variant), scaled()
    v, theta = somewhere(task)
    weight = theta["weight"].numpy()
    bias = weight[:, -1] if variant == "tied" else theta["bias"].numpy()
    assert set(theta) == ({"weight"} if variant == "tied" else {"weight", "bias"})
    g = task.problem.inner(2 * v - 0.5, theta, double(split.train))  # some weights are outside of [0, 1]
    f = task.problem.outer(v, theta, double(split.validation))
    assert float(g) == pytest.approx(inner_of(variant, 2 * v.numpy() - 0.5, weight, bias), rel=1e-6)
    first = split.first.numpy()
    assert float(f) == pytest.approx(losses(x[first] @ weight.T + bias, images()[1][first]).mean(), rel=1e-6)


@pytest.mark.parametrize("variant", ["code", "tied", "sum"])
def test_the_gradients_of_hyper_cleaning_are_slopes_of_the_formula(variant: str) -> None:
    task, split = hyperclean_digits(variant), split_of("hyperclean-digits", 0)
    v, theta = somewhere(task)
    v, theta = v.requires_grad_(), {key: x.requires_grad_() for key, x in theta.items()}
    grads = torch.autograd.grad(task.problem.inner(v, theta, double(split.train)), [v, *theta.values()])
    draw = np.random.default_rng(1)
    along = [draw.normal(size=x.shape) for x in grads]
    along[0] *= 1e-3  # stays inside of the box
    slope = sum(float((g.numpy() * a).sum()) for g, a in zip(grads, along, strict=True))

    def value(h: float) -> float:
        moved = [x.detach().numpy() + h * a for x, a in zip((v, *theta.values()), along, strict=True)]
        return inner_of(variant, moved[0], moved[1], moved[2] if len(moved) > 2 else moved[1][:, -1])

    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-5)


def test_weights_at_the_ends_of_the_box_can_move_again(code: Task) -> None:
    split = split_of("hyperclean-digits", 0)
    v = torch.cat([torch.zeros(500), torch.ones(500)]).requires_grad_()
    theta = code.problem.theta.seen(tuple(x.detach() for x in code.problem.theta.leaves))
    (grad,) = torch.autograd.grad(code.problem.inner(v, theta, split.train), v)
    assert (grad > 0).all()


def test_the_variants_of_hyper_cleaning_differ_in_what_they_say(code: Task) -> None:
    tied, summed, paper = (hyperclean_digits(name) for name in ("tied", "sum", "paper"))
    assert (code.settings.eta, code.settings.phi) == (0.1, "gap")
    assert (paper.settings.eta, paper.settings.phi) == (0.5, "norm")
    assert summed.settings.inner_lr == pytest.approx(code.settings.inner_lr / 1000)
    assert [len(task.problem.theta.leaves) for task in (code, tied, summed)] == [2, 1, 2]
    starts = [task.problem.theta.leaves[0] for task in (code, summed, paper)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])  # trained on the noisy samples only
    assert torch.equal(code.problem.v.leaves[0], torch.full((1000,), 0.5))


def test_the_cleaning_scores_follow_their_formula() -> None:
    """Three kept, two of them clean; four clean: precision 2/3, recall 1/2, F1 = 2 · ⅓ / (7/6) = 4/7."""
    weights, clean = torch.tensor([0.9, 0.6, 0.7, 0.5, 0.1, 0.2]), torch.tensor([1, 1, 0, 1, 1, 0]).bool()
    found = cleaning(weights, clean)
    assert found == pytest.approx({"f1": 400 / 7, "precision": 200 / 3, "recall": 50}, abs=0.02)
    assert cleaning(torch.full((4,), 0.5), torch.ones(4, dtype=torch.bool))["f1"] == 0
    everything = cleaning(torch.ones(100), torch.arange(100) < 55)
    assert everything["f1"] == pytest.approx(100 * 1.1 / 1.55, abs=0.02)


def test_what_is_observed_are_losses_and_accuracies_on_validation_set_2_and_test(code: Task) -> None:
    x, _, split = scaled()
    point = code.problem.point
    weight, bias = (leaf.numpy().astype(float) for leaf in point.theta)
    assert code.observe is not None
    found = code.observe(point)
    for name, rows in (("val2", split.second.numpy()), ("test", np.arange(1400, 1797))):
        z, labels = x[rows] @ weight.T + bias, images()[1][rows]
        assert found[f"{name}_loss"] == pytest.approx(losses(z, labels).mean(), rel=1e-5)
        assert found[f"{name}_accuracy"] == pytest.approx(100 * (z.argmax(1) == labels).mean(), abs=0.3)
    assert found["f1"] == 0  # all weights are ½


def test_the_start_is_the_best_epoch_on_validation_set_2() -> None:
    """Against a plain loop of gradient descent with momentum in float64."""
    x, rows, split = scaled()
    noisy = np.concatenate([rows, split.first.numpy()])
    labels = np.concatenate([split.noisy.numpy(), images()[1][split.first.numpy()]])
    held_out, truth = x[split.second.numpy()], images()[1][split.second.numpy()]
    start = start_model(split.pool, 0)
    weight, bias = start["weight"].double().numpy(), start["bias"].double().numpy()
    speed_w, speed_b = np.zeros_like(weight), np.zeros_like(bias)
    best = (np.inf, -1, weight, bias)
    for epoch in range(900):
        loss = losses(held_out @ weight.T + bias, truth).mean()
        if loss < best[0]:
            best = (loss, epoch, weight, bias)
        p = scipy.special.softmax(x[noisy] @ weight.T + bias, axis=1)
        p[np.arange(len(p)), labels] -= 1
        speed_w = 0.9 * speed_w + p.T @ x[noisy] / len(p) + 0.002 * weight
        speed_b = 0.9 * speed_b + p.mean(0)
        weight, bias = weight - 0.01 * speed_w, bias - 0.01 * speed_b
    assert best[1] < 700, "patience must have run out before the end of this loop"
    found = trained(together(split.train, split.validation), split, start, ridge)
    assert abs(found.epoch - best[1]) <= 3  # the loss is flat there
    assert found.loss == pytest.approx(best[0], rel=1e-5)
    kept = hyperclean_digits().problem.point.theta
    assert torch.equal(kept[0], found.model["weight"])
    np.testing.assert_allclose(kept[0].numpy(), best[2], atol=2e-3)


def test_the_inner_problem_of_hyper_cleaning_is_solved_afresh_to_its_minimum(code: Task) -> None:
    """The least value of g is found by SciPy in float64."""
    x, rows, split = scaled()
    v = np.linspace(0, 1, 1000)
    shape = (10, 64)

    def slope(flat: Array) -> tuple[float, Array]:
        weight, bias = flat[:640].reshape(shape), flat[640:]
        p = scipy.special.softmax(x[rows] @ weight.T + bias, axis=1)
        p[np.arange(len(p)), split.noisy.numpy()] -= 1
        p *= v[:, None] / len(p)
        return inner_of("code", v, weight, bias), np.r_[(p.T @ x[rows] + 0.002 * weight).ravel(), p.sum(0)]

    least = scipy.optimize.minimize(
        slope,
        np.zeros(650),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 9000, "ftol": 1e-13, "gtol": 1e-7},
    ).fun
    assert code.resolve is not None
    start = code.problem.point.theta
    found = code.resolve((torch.from_numpy(v).float(),), start)
    values = [inner_of("code", v, *(leaf.double().numpy() for leaf in theta)) for theta in (start, found)]
    assert values[0] - least > 0.05
    assert -1e-6 < values[1] - least < 3e-4


def test_the_inner_problem_of_the_regularisation_solved_afresh_has_no_slope() -> None:
    task, train = regularization_digits(), regularization.split_of("regularization-digits", 0).train
    assert task.resolve is not None
    v, start = torch.linspace(0, 1, 64), task.problem.point.theta
    (theta,) = (x.requires_grad_() for x in task.resolve((v,), start))
    (grad,) = torch.autograd.grad(task.problem.inner(v, theta, train), theta)
    (before,) = torch.autograd.grad(task.problem.inner(v, first := start[0].requires_grad_(), train), first)
    assert grad.abs().max() < 2e-4
    assert grad.norm() < 0.1 * before.norm()


@pytest.mark.parametrize("name", ["hyperclean-digits", "regularization-digits"])
def test_no_test_sample_enters_training(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_splits: None
) -> None:
    def end(cache: str) -> Pair:
        monkeypatch.setenv("BOME_CACHE", str(tmp_path / cache))  # so that the start is trained anew
        made = plan(name, "bome", {"steps": 3, "inner_steps": 2})
        solve(made)
        return made.task.problem.point

    monkeypatch.setattr(hyperclean, "PATIENCE", 3)
    monkeypatch.setattr(regularization, "PATIENCE", 3)
    before = end("one")
    _poison(name, monkeypatch)
    after = end("two")
    for one, other in zip(sum(before, ()), sum(after, ()), strict=True):
        assert torch.equal(one, other)
    assert plan(name, "bome", {}).task.observe is not None
    judgement = plan(name, "bome", {}).task.observe(after)  # type: ignore[misc]
    assert np.isnan(judgement["test_loss"]), "the poison was not in the test samples"


def _poison(name: str, patch: pytest.MonkeyPatch) -> None:
    """Every test sample becomes NaN."""
    if name == "hyperclean-digits":
        pool = hyperclean.pool_of(name)
        patch.setattr(hyperclean, "pool_of", lambda name: pool._replace(test=torch.full_like(pool.test, torch.nan)))
        hyperclean.split_of.cache_clear()
        return
    split = regularization.split_of(name, 0)
    words = split.test.words
    nan = regularization.Sparse(*(_like(m, torch.full_like(m.values(), torch.nan)) for m in words))
    spoiled = split._replace(test=split.test._replace(words=nan))
    patch.setattr(regularization, "split_of", lambda name, seed: spoiled)


def _like(matrix: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape)


@pytest.fixture
def fresh_splits() -> Iterator[None]:
    hyperclean.split_of.cache_clear()
    yield
    hyperclean.split_of.cache_clear()


# --- learnable regularisation -----------------------------------------------------------------------------------------


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
        solve(made)


# --- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ON_DATA, "hyperclean-digits", "regularization-digits"])
def test_unknown_names_are_refused_before_any_data_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hyperclean, regularization):
        monkeypatch.setattr(module, "split_of", None)
    known = (hyperclean if name.startswith("hyper") else regularization).VARIANTS
    with pytest.raises(ProblemError, match=f"unknown variant of {name} 'zzz'; known: {', '.join(known)}"):
        TASKS[name](variant="zzz")
    with pytest.raises(ProblemError, match=f"unknown start of {name} 'zzz'; known: pretrained"):
        TASKS[name](start="zzz")


@pytest.mark.parametrize("name", ["hyperclean-digits", "regularization-digits"])
def test_a_task_has_variables_of_its_own(name: str) -> None:
    first, second = TASKS[name](), TASKS[name]()
    for one, other in zip(sum(first.problem.point, ()), sum(second.problem.point, ()), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()


@pytest.mark.slow
@pytest.mark.skipif("BOME_DATA" not in os.environ, reason="BOME_DATA is not set: the real MNIST is not at hand")
def test_the_start_on_mnist_is_as_good_as_the_released_one() -> None:
    task = TASKS["hyperclean-mnist"](seed=0)
    split = split_of("hyperclean-mnist", 0)
    found = judged(task.problem.theta.seen(task.problem.point.theta), split)
    assert found["test_accuracy"] == pytest.approx(84.0, abs=0.7)
    assert float(mean_loss(task.problem.theta.seen(task.problem.point.theta), split.test)) == pytest.approx(
        found["test_loss"], rel=1e-5
    )
