"""The small language model: causal, with the parameters that it says, and refused where it cannot be made."""

import pytest
import torch

from bome.errors import ProblemError
from bome.mixture.gpt import GPT, bytes_of, trainable


def gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(vocabulary=11, length=8, width=12, layers=2, heads=3)


def test_there_are_logits_of_every_token_at_every_place() -> None:
    assert gpt()(torch.randint(11, (2, 5))).shape == (2, 5, 11)


def test_a_token_is_predicted_from_those_before_it_only() -> None:
    model, tokens = gpt(), torch.randint(11, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (tokens[0, 5] + 1) % 11
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_frozen_parameters_are_not_trained() -> None:
    model = gpt()
    everything = len(trainable(model))
    model.places.requires_grad_(False)
    assert len(trainable(model)) == everything - 1


def test_a_text_becomes_its_bytes() -> None:
    assert bytes_of(b"abc").tolist() == [97, 98, 99]
    assert bytes_of(b"").shape == (0,)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 6, "heads": 4}, "width must be a multiple of the number of heads, got 6 and 4"),
        ({"layers": 0}, "layers must be a whole number of at least 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        GPT(10, 4, **sizes)
