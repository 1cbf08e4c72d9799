"""Sources of tokens: pieces at random places, batches of all sources, and positions that are kept."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bome.data.streams import Loader
from bome.errors import ProblemError
from bome.mixture.sources import IGNORED, AllSources, MixedText, Text, named, padded, stream

TOKENS = torch.arange(100)
ROWS = torch.arange(40).reshape(8, 5)


def test_a_batch_is_pieces_of_the_text_with_one_token_more_than_asked_for() -> None:
    batch = Text("a", TOKENS, 6, 4, 0).next()
    assert batch.shape == (6, 5)
    assert (batch.diff(dim=1) == 1).all()


def test_of_a_table_whole_rows_are_drawn() -> None:
    batch = Text("a", ROWS, 3, 4, 0).next()
    assert batch.shape == (3, 5)
    assert all(row.tolist() in ROWS.tolist() for row in batch)


def test_a_batch_depends_on_the_seed_and_its_number_only() -> None:
    first, other = Text("a", TOKENS, 6, 4, 0), Text("a", TOKENS, 6, 4, 1)
    assert not torch.equal(first.next(), other.next())
    again = Text("a", TOKENS, 6, 4, 5)
    again.load_state_dict(first.state_dict())
    assert torch.equal(again.next(), first.next())


def test_the_last_piece_of_a_text_can_be_drawn() -> None:
    assert Text("a", torch.arange(5), 1, 4, 0).next().tolist() == [[0, 1, 2, 3, 4]]
    drawn = torch.cat([Text("a", torch.arange(6), 50, 4, seed).next()[:, 0] for seed in range(3)])
    assert set(drawn.tolist()) == {0, 1}


def test_batches_of_all_sources_are_filled_up_to_the_longest() -> None:
    both = AllSources({"a": Text("a", ROWS, 2, 4, 0), "b": Text("b", TOKENS, 1, 7, 0)})
    tokens, numbers = both.next()
    assert tokens.shape == (3, 8)
    assert numbers.tolist() == [0, 0, 1]
    assert (tokens[:2, 5:] == IGNORED).all()
    assert (tokens[2] != IGNORED).all()


@pytest.mark.parametrize("batch", [ROWS, {"input_ids": ROWS}, (ROWS, "labels"), [ROWS]], ids=lambda b: type(b).__name__)
def test_batches_of_any_loader_are_understood(batch: Any) -> None:
    assert torch.equal(padded(batch, "a"), ROWS)


def test_an_iterable_is_read_as_it_comes() -> None:
    assert isinstance(stream("a", [ROWS], 2, 4, 0), Loader)
    assert isinstance(stream("a", TOKENS, 2, 4, 0), Text)


def test_a_mixture_draws_from_its_sources_only_as_it_is_told() -> None:
    marked = {"a": torch.zeros(9).long(), "b": torch.ones(9).long()}
    assert MixedText(marked, [0, 1], 5, 3).next().min() == 1
    one, two = MixedText(marked, [1, 1], 5, 3), MixedText(marked, [1, 1], 5, 3, seed=9)
    one.next()
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.next(), two.next())


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Text("a", torch.ones(9), 2, 4, 0), "source 'a' must be a 1-d tensor of token numbers.* got torch.float32"),
    (lambda: Text("a", torch.arange(4), 2, 4, 0), "source 'a' has 4 tokens, fewer than the 5 of a sequence"),
    (lambda: Text("a", TOKENS, 0, 4, 0), "size of a batch must be a whole number of at least 1"),
    (lambda: Text("a", TOKENS, 1, 0, 0), "length must be a whole number of at least 1"),
    (lambda: stream("a", "a text", 1, 4, 0), "source 'a' must be a tensor of token numbers or an iterable.* got str"),
    (lambda: named({"a": TOKENS}), "at least two sources by name"),
    (lambda: named({1: TOKENS, 2: TOKENS}), "at least two sources by name"),  # type: ignore[dict-item]
    (lambda: padded(TOKENS, "a"), r"a batch of 'a' must be \(sequences, at least two tokens\)"),
    (lambda: padded({"labels": ROWS}, "a"), "a batch of 'a' must be"),
    (lambda: MixedText({"a": TOKENS, "b": TOKENS}, [1, -1], 2, 4), "probabilities must be 2 numbers of at least 0"),
    (lambda: MixedText({"a": TOKENS, "b": TOKENS}, [0, 0], 2, 4), "probabilities must be 2 numbers of at least 0"),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_what_cannot_work_is_refused(make: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        make()
