"""Streams: seeded, complete in every epoch, and resumed at the very batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from bome.data.streams import Batch, Constant, Data, FixedBatches, Loader, Minibatches, Stream
from bome.errors import ProblemError
from tests.support.samples import same, seeded

X = torch.arange(10.0)
Y = X.square()


def test_an_epoch_has_every_sample_once_and_the_last_batch_is_shorter() -> None:
    """10 samples by 4: batches of 4, 4 and 2, with ids 0, 1, 2."""
    stream = Minibatches((X, Y), 4, seed=3)
    for _ in range(3):
        batches = [stream.next() for _ in range(3)]
        assert [len(b.rows) for b in batches] == [4, 4, 2]
        assert [b.id for b in batches] == [0, 1, 2]
        assert torch.cat([b.rows for b in batches]).sort().values.tolist() == list(range(10))
        for batch in batches:
            assert torch.equal(batch.data[0], X[batch.rows])
            assert torch.equal(batch.data[1], Y[batch.rows])


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    def order(seed: int, draws: int = 10) -> list[int]:
        stream = Minibatches((X,), 1, seed)
        return [int(stream.next().rows) for _ in range(draws)]

    with seeded(1):
        first = order(0, 30)
    with seeded(2):
        again = order(0, 30)
    assert first == again
    epochs = {tuple(first[i : i + 10]) for i in (0, 10, 20)} | {tuple(order(1)), tuple(order(2))}
    assert len(epochs) == 5


def test_streams_leave_the_generator_of_torch_alone() -> None:
    before = torch.get_rng_state()
    stream = Minibatches((X,), 3)
    for _ in range(7):
        stream.next()
    stream.load_state_dict(stream.state_dict())
    assert torch.equal(before, torch.get_rng_state())


def _loader(own: bool) -> Loader:
    generator = torch.Generator().manual_seed(4) if own else None
    return Loader(DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True, generator=generator))


STREAMS: dict[str, Callable[[], Stream]] = {
    "minibatches": lambda: Minibatches((X, Y), 3, seed=1),
    "a fixed partition": lambda: FixedBatches((X, Y), 4, seed=1),
    "loader with its own generator": lambda: _loader(True),
    "loader with that of torch": lambda: _loader(False),
    "list": lambda: Loader([1, 2, 3]),
    "constant": lambda: Constant("all"),
}


def _plain(batch: Any) -> Any:
    return [*batch.data, batch.rows, batch.id] if isinstance(batch, Batch) else batch


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("used", range(10))
def test_a_stream_goes_on_from_any_saved_position(name: str, used: int) -> None:
    """Over two epochs and a half; the generator of torch is also put back, as a run does."""
    with seeded(7):
        stream = STREAMS[name]()
        for _ in range(used):
            stream.next()
        state, random = stream.state_dict(), torch.get_rng_state()
        rest = [_plain(stream.next()) for _ in range(12)]
    with seeded(8):
        other = STREAMS[name]()
        other.next()
        before = torch.get_rng_state()
        other.load_state_dict(state)
        assert torch.equal(torch.get_rng_state(), before)
        torch.set_rng_state(random)
        assert same(other.state_dict(), state)
        assert same([_plain(other.next()) for _ in range(12)], rest)


def test_a_shuffling_loader_without_its_state_goes_elsewhere() -> None:
    """The control: the same position in another order."""
    one, other = _loader(True), _loader(True)
    for _ in range(5):
        one.next()
    state = {**one.state_dict(), "shuffle": torch.Generator().manual_seed(5).get_state()}
    other.load_state_dict(state)
    assert not same([other.next() for _ in range(8)], [one.next() for _ in range(8)])


def test_a_loader_that_can_be_read_once_says_so_when_it_ends() -> None:
    stream = Loader(iter([1, 2]))
    assert [stream.next(), stream.next()] == [1, 2]
    with pytest.raises(ProblemError, match="read only once"):
        stream.next()


def test_data_draws_as_many_batches_as_a_step_takes_and_saves_both_positions() -> None:
    data = Data(inner=Minibatches((X,), 2, seed=0), outer=Loader(["a", "b", "c"]))
    batches = data.draw(inner=3, outer=2)
    assert len(batches.inner) == 3
    assert batches.outer == ("a", "b")
    state = data.state_dict()
    expected = data.draw(inner=1, outer=1)
    other = Data(inner=Minibatches((X,), 2, seed=0), outer=Loader(["a", "b", "c"]))
    other.load_state_dict(state)
    found = other.draw(inner=1, outer=1)
    assert found.outer == expected.outer == ("c",)
    rows: list[Tensor] = [batches.inner[0].rows for batches in (expected, found)]
    assert torch.equal(*rows)
