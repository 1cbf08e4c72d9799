"""Linear softmax models: scores by blocks of samples, against plain products."""

import pytest
import torch
from torch import Tensor

from bome.errors import ProblemError
from bome.tasks import softmax
from bome.tasks.softmax import Model, Samples, cross_entropies, scores, with_one


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "BLOCK", 5)


def _drawn(n: int, d: int = 4, classes: int = 3) -> tuple[Model, Samples]:
    draw = torch.Generator().manual_seed(n)
    model = {
        "weight": torch.randn(classes, d, generator=draw, dtype=torch.float64),
        "bias": torch.randn(classes, generator=draw, dtype=torch.float64),
    }
    x = torch.randn(n, d, generator=draw, dtype=torch.float64)
    return model, Samples(with_one(x), torch.randint(classes, (n,), generator=draw))


def _plain(model: Model, samples: Samples) -> Tensor:
    return torch.nn.functional.linear(samples.x[:, :-1], model["weight"], model["bias"]).T


SIZES = pytest.mark.parametrize("n", [3, 5, 10, 13], ids=["no block", "one block", "two blocks", "blocks and a rest"])


@SIZES
def test_scores_are_those_of_one_product_and_so_are_their_gradients(n: int) -> None:
    model, samples = _drawn(n)
    live = {name: x.requires_grad_() for name, x in model.items()}
    torch.testing.assert_close(scores(live, samples), _plain(live, samples))

    def gradient(z: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((cross_entropies(z, samples.labels) ** 2).sum(), tuple(live.values()))

    torch.testing.assert_close(gradient(scores(live, samples)), gradient(_plain(live, samples)))


@SIZES
def test_scores_can_be_differentiated_twice(n: int) -> None:
    model, samples = _drawn(n)

    def loss(weight: Tensor, bias: Tensor) -> Tensor:
        return cross_entropies(scores({"weight": weight, "bias": bias}, samples), samples.labels).mean()

    inputs = tuple(x.requires_grad_() for x in model.values())
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


@SIZES
def test_models_of_a_batch_have_the_scores_and_gradients_they_have_alone(n: int) -> None:
    model, samples = _drawn(n)
    many = {name: torch.stack([x, -2 * x, x + 1]) for name, x in model.items()}

    def loss(model: Model) -> Tensor:
        return (cross_entropies(scores(model, samples), samples.labels) ** 2).sum()

    found = torch.func.vmap(torch.func.grad(loss))(many)
    for i in range(3):
        alone = torch.func.grad(loss)({name: x[i] for name, x in many.items()})
        for name, expected in alone.items():
            torch.testing.assert_close(found[name][i], expected)


def test_models_of_a_batch_make_one_wide_product(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    times = softmax._times

    def watched(rows: Tensor, x: Tensor) -> Tensor:
        seen.append(tuple(rows.shape))
        return times(rows, x)

    monkeypatch.setattr(softmax, "_times", watched)
    model, samples = _drawn(13)
    torch.func.vmap(lambda model: scores(model, samples))({name: torch.stack([x] * 4) for name, x in model.items()})
    assert seen == [(4 * 3, 5)]


def test_models_of_a_batch_with_samples_of_their_own_are_refused() -> None:
    model, samples = _drawn(13)
    many = {name: torch.stack([x] * 2) for name, x in model.items()}
    with pytest.raises(ProblemError, match="share their samples"):
        torch.func.vmap(lambda model, x: scores(model, samples._replace(x=x)))(many, torch.stack([samples.x] * 2))


def test_a_scaling_of_features_enters_the_weights() -> None:
    model, samples = _drawn(13)
    shift, scale = torch.tensor(0.5, dtype=torch.float64), torch.tensor(3.0, dtype=torch.float64)
    scaled = samples._replace(x=with_one((samples.x[:, :-1] - shift) * scale))
    torch.testing.assert_close(scores(model, samples._replace(shift=shift, scale=scale)), _plain(model, scaled))
