"""`DataMixture`: its two losses by hand, what it learns on a small text, and the models it takes."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from bome import DataMixture
from bome.errors import ProblemError
from bome.inner import GradientDescent
from bome.methods import F2SA
from bome.mixture.fit import sequence_losses
from bome.mixture.gpt import GPT, bytes_of
from bome.mixture.sources import IGNORED, AllSources, MixedText, Text

SUBJECTS = ("the rocket", "a probe", "the shuttle", "our station", "the lander")
VERBS = ("orbits", "leaves", "sees", "maps", "passes")
OBJECTS = ("the moon", "mars", "a comet", "the sun", "dark ice")
PARTS = ("disk", "card", "port", "driver", "bus")


def sentences(seed: int, n: int = 400) -> Tensor:
    draw = random.Random(seed)  # noqa: S311 - text for a test
    text = " ".join(f"{draw.choice(SUBJECTS)} {draw.choice(VERBS)} {draw.choice(OBJECTS)}." for _ in range(n))
    return bytes_of(text.encode())


def orders(seed: int, n: int = 500) -> Tensor:
    draw = random.Random(seed)  # noqa: S311 - text for a test
    text = " ".join(f"{draw.choice(PARTS)}={draw.randint(100, 999)};" for _ in range(n))
    return bytes_of(text.encode())


def shuffled(tokens: Tensor) -> Tensor:
    return tokens[torch.randperm(len(tokens), generator=torch.Generator().manual_seed(0))]


def sources() -> dict[str, Tensor]:
    return {"space": sentences(1), "orders": orders(2), "junk": shuffled(sentences(1))}


def gpt(seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    return GPT(128, 16, width=16, layers=1, heads=2)


SMALL: Any = {"length": 16, "batch": 4, "target_batch": 12, "inner_steps": 3, "inner_lr": 0.03, "outer_lr": 0.2}


class Table(nn.Module):
    """Logits of the next token by the present one."""

    def __init__(self, vocabulary: int = 5, wrapped: bool = False) -> None:
        super().__init__()
        self.logits, self.wrapped = nn.Parameter(torch.randn(vocabulary, vocabulary)), wrapped

    def forward(self, tokens: Tensor) -> Any:
        out = self.logits[tokens]
        return SimpleNamespace(logits=out) if self.wrapped else out


def test_the_loss_of_a_sequence_is_the_mean_surprise_of_its_tokens_and_ignores_what_is_not_there() -> None:
    torch.manual_seed(0)
    model = Table()
    log_p = model.logits.detach().log_softmax(1)
    tokens = torch.tensor([[0, 1, 2, 3], [4, 4, 1, IGNORED]])
    by_hand = [-(log_p[0, 1] + log_p[1, 2] + log_p[2, 3]) / 3, -(log_p[4, 4] + log_p[4, 1]) / 2]
    torch.testing.assert_close(sequence_losses(model, tokens), torch.stack(by_hand))


@pytest.mark.parametrize("form", ["softmax", "simplex"])
def test_the_inner_loss_weighs_the_means_of_the_sources(form: Any) -> None:
    torch.manual_seed(0)
    model, mixture = Table(), DataMixture(form=form)
    tokens, numbers = torch.randint(5, (5, 4)), torch.tensor([0, 0, 0, 1, 1])
    each = sequence_losses(model, tokens)
    v = torch.tensor([0.3, -0.4])
    weights = v.exp() / v.exp().sum() if form == "softmax" else v
    expected = weights[0] * each[:3].mean() + weights[1] * each[3:].mean()
    torch.testing.assert_close(mixture._inner(v, model, (tokens, numbers)), expected)
    torch.testing.assert_close(mixture._outer(v, model, tokens), each.mean())


@pytest.mark.filterwarnings("ignore:the inner loss rose")  # in a quarter of the steps
def test_junk_loses_its_weight_and_the_text_like_the_target_gains() -> None:
    mixture = DataMixture(steps=60, warmup=100, **SMALL).fit(gpt(), sources(), sentences(3))
    assert sum(mixture.weights_.values()) == pytest.approx(1, abs=1e-5)
    assert mixture.weights_["junk"] < 0.1
    assert max(mixture.weights_, key=lambda name: mixture.weights_[name]) == "space"
    assert mixture.history_[0]["weight/junk"] == pytest.approx(1 / 3)
    assert mixture.result_.evaluations == {"g": 60 * 4, "f": 60}


def test_weights_of_the_simplex_are_shares_that_may_be_nothing() -> None:
    mixture = DataMixture(form="simplex", steps=10, warmup=30, **{**SMALL, "outer_lr": 1000.0})
    mixture.fit(gpt(), sources(), sentences(3))
    assert sum(mixture.weights_.values()) == pytest.approx(1, abs=1e-5)
    assert min(mixture.weights_.values()) == 0.0


@pytest.mark.filterwarnings("ignore:the inner loss rose")  # in a quarter of the steps
def test_another_target_is_served_by_another_source() -> None:
    mixture = DataMixture(steps=60, warmup=100, **SMALL)
    mixture.fit(gpt(), sources(), orders(4))
    assert mixture.weights_["orders"] == max(mixture.weights_.values())


def test_a_model_that_wraps_its_logits_is_fitted_alike() -> None:
    """As causal language models of Hugging Face do."""
    found = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        mixture = DataMixture(steps=3, length=4, batch=1, eta=2.0)
        mixture.fit(Table(128, wrapped), sources(), sentences(3))
        found.append(mixture.weights_)
    assert found[0] == found[1]


def test_frozen_parameters_stay_and_the_others_learn() -> None:
    model = gpt()
    for name, p in model.named_parameters():
        p.requires_grad_("perceptron" in name)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    DataMixture(steps=3, **SMALL).fit(model, sources(), sentences(3))
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) == (not p.requires_grad), name


def test_half_precision_computes_nearly_the_same_loss_and_keeps_the_parameters_as_they_are() -> None:
    model = gpt()
    batch = AllSources({name: Text(name, x, 4, 16, 0) for name, x in sources().items()}).next()
    v = torch.zeros(3)
    full = DataMixture()._inner(v, model, batch)
    half = DataMixture(autocast=torch.bfloat16)._inner(v, model, batch)
    assert half.dtype == torch.float32
    assert 0 < (half - full).abs() < 0.02 * full
    mixture = DataMixture(steps=2, autocast=torch.bfloat16, **SMALL)
    mixture.fit(model, sources(), sentences(3))
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_fit_that_was_killed_in_its_first_save_is_warmed_up_again(tmp_path: Path) -> None:
    """What is left of the save is no checkpoint."""
    (tmp_path / "checkpoints" / "step_00000001.tmp-4194305").mkdir(parents=True)
    found = [
        DataMixture(steps=2, warmup=5, **SMALL).fit(gpt(), sources(), sentences(3), record=record).weights_
        for record in (None, tmp_path)
    ]
    assert found[0] == found[1]


def test_other_methods_of_the_library_learn_mixtures_too() -> None:
    method = F2SA(GradientDescent(0.2, 2), lam=1.0, schedule="constant")
    mixture = DataMixture(steps=2, method=method, **SMALL).fit(gpt(), sources(), sentences(3))
    assert mixture.result_.evaluations == {"g": 2 * 6, "f": 2 * 3}


def test_loaders_of_batches_serve_as_sources() -> None:
    def loader(tokens: Tensor) -> Any:
        return DataLoader([{"input_ids": x.long()} for x in tokens[: 17 * 8].view(8, 17)], batch_size=2)  # type: ignore[arg-type]

    given = {name: loader(tokens) for name, tokens in sources().items()}
    given["orders"] = orders(2)[: 12 * 8].view(8, 12).long()  # sequences of another length, in rows
    mixture = DataMixture(steps=3, **SMALL).fit(gpt(), given, loader(sentences(3)))
    assert set(mixture.weights_) == {"space", "orders", "junk"}


def test_a_fit_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def fit(steps: int, folder: Path) -> tuple[dict[str, float], Tensor]:
        mixture, model = DataMixture(steps=steps, warmup=5, eta=2.0, **SMALL), gpt()
        mixture.fit(model, sources(), sentences(3), record=folder)
        return mixture.weights_, model.tokens.weight.detach().clone()

    whole = fit(8, tmp_path / "whole")
    fit(3, tmp_path / "parts")
    parts = fit(8, tmp_path / "parts")
    assert whole[0] == parts[0]
    assert torch.equal(whole[1], parts[1])


def test_the_sampler_draws_sources_as_often_as_the_weights_say() -> None:
    marked = {name: torch.full((50,), number) for number, name in enumerate(("a", "b", "c"))}
    mixture = DataMixture(length=4)
    mixture.weights_ = {"a": 0.7, "b": 0.3, "c": 0.0}
    assert mixture.probabilities().tolist() == [0.7, 0.3, 0.0]
    drawn = torch.cat([mixture.sampler(marked, 50, seed).next()[:, 0] for seed in range(20)])
    shares = torch.bincount(drawn, minlength=3) / len(drawn)
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.3, 0.0]), rtol=0, atol=0.06)
    with pytest.raises(ProblemError, match="learned for the sources"):
        mixture.sampler({"a": marked["a"]}, 5)


def test_a_stream_of_text_goes_on_where_it_was() -> None:
    for make in (
        lambda: Text("a", sentences(1), 3, 8, 7),
        lambda: AllSources({name: Text(name, x, 2, 8, 7) for name, x in sources().items()}),
        lambda: MixedText(sources(), [1, 1, 1], 3, 8, 7),
    ):
        first: Any = make()
        first.next()
        again: Any = make()
        again.load_state_dict(first.state_dict())
        a, b = first.next(), again.next()
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        assert not torch.equal(a[0], first.next()[0])  # it does not stand still


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "one source": (lambda: DataMixture().fit(gpt(), {"a": sentences(1)}, sentences(3)), "at least two sources"),
    "no dict": (lambda: DataMixture().fit(gpt(), [1, 2], sentences(3)), "dict of at least two"),  # type: ignore[arg-type]
    "text": (lambda: DataMixture().fit(gpt(), {"a": "text", "b": "text"}, sentences(3)), "source 'a' must be a tensor"),
    "floats": (
        lambda: DataMixture().fit(gpt(), {"a": torch.ones(99), "b": torch.ones(99)}, sentences(3)),
        "1-d tensor of token numbers",
    ),
    "short": (
        lambda: DataMixture(length=64).fit(gpt(), {"a": sentences(1)[:64], "b": sentences(1)}, sentences(3)),
        "source 'a' has 64 tokens, fewer than the 65",
    ),
    "model": (lambda: DataMixture().fit(nn.Identity(), sources(), sentences(3)), "with parameters to train"),
    "form": (lambda: DataMixture(form="max").fit(gpt(), sources(), sentences(3)), "form must be"),  # type: ignore[arg-type]
    "steps": (lambda: DataMixture(steps=0).fit(gpt(), sources(), sentences(3)), "steps must be"),
    "logits": (
        lambda: sequence_losses(nn.Sequential(nn.Embedding(9, 3), nn.Flatten(0, 1)), torch.zeros(2, 3).long()),
        "logits of shape",
    ),
    "heads": (lambda: GPT(10, 4, width=6, heads=4), "multiple of the number of heads"),
    "probabilities": (lambda: MixedText(sources(), [1, 2], 3, 8), "3 numbers of at least 0"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_work_is_refused_in_one_line(name: str) -> None:
    make, message = MISTAKES[name]
    with pytest.raises(ProblemError, match=message):
        make()
