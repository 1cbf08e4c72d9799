"""Data hyper-cleaning, on the small digits that need no files, against formulas written anew in NumPy."""

import os

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch

from bome.tasks import (
    TASKS,
    Task,
    hyperclean,
    hyperclean_digits,
)
from bome.tasks.hyperclean import judge, mean_loss, ridge, score_weights, start_model, train_model
from bome.tasks.softmax import Samples
from bome.tasks.splits import split_of, together
from tests.support.data_tasks import Array, images, losses, scaled, somewhere


def double(samples: Samples) -> Samples:
    return samples._replace(x=samples.x.double())


@pytest.fixture(scope="module")
def code() -> Task:
    return hyperclean_digits()


def inner_of(variant: str, v: Array, weight: Array, bias: Array) -> float:
    """g of hyper-cleaning, from the paper and the authors' code."""
    x, rows, split = scaled()
    each = np.clip(v, 0, 1) * losses(x[rows] @ weight.T + bias, split.noisy.numpy())
    total = each.sum() if variant in ("sum", "paper") else each.mean()
    return float(total + 0.001 * (weight**2).sum())


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
    found = score_weights(weights, clean)
    assert found == pytest.approx({"f1": 400 / 7, "precision": 200 / 3, "recall": 50}, abs=0.02)
    assert score_weights(torch.full((4,), 0.5), torch.ones(4, dtype=torch.bool))["f1"] == 0
    everything = score_weights(torch.ones(100), torch.arange(100) < 55)
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
    found = train_model(together(split.train, split.validation), split, start, ridge)
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


@pytest.mark.slow
@pytest.mark.skipif("BOME_DATA" not in os.environ, reason="BOME_DATA is not set: the real MNIST is not at hand")
def test_the_start_on_mnist_is_as_good_as_the_released_one() -> None:
    task = TASKS["hyperclean-mnist"](seed=0)
    split = split_of("hyperclean-mnist", 0)
    found = judge(task.problem.theta.seen(task.problem.point.theta), split)
    assert found["test_accuracy"] == pytest.approx(84.0, abs=0.7)
    assert float(mean_loss(task.problem.theta.seen(task.problem.point.theta), split.test)) == pytest.approx(
        found["test_loss"], rel=1e-5
    )
