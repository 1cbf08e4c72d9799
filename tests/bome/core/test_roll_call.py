"""Who is missing? A rank that does not answer is named; an error of another kind stays what it is."""

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from torch import distributed as dist

from bome.core import roll_call
from bome.core.ranks import Ranks
from bome.core.roll_call import Watch, watched
from bome.errors import RankError


@dataclass(frozen=True)
class Claimed(Ranks):
    """One process that stands for the first of several ranks."""

    count: int = 1

    @property
    def size(self) -> int:
        """As many as claimed."""
        return self.count


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(roll_call, "PATIENCE", 0.2)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


def ranks(count: int) -> Claimed:
    return Claimed(dist.group.WORLD, count)  # type: ignore[arg-type]


def test_a_rank_that_calls_the_roll_answers_itself() -> None:
    watch = Watch(ranks(1))
    assert not watch.called()
    assert watch.missing() == []
    assert watch.called()
    assert watch.error() is None


def test_ranks_that_do_not_answer_are_named_with_the_step() -> None:
    watch = Watch(ranks(3))
    watch.step = 7
    error = watch.error()
    assert isinstance(error, RankError)
    assert (error.step, error.ranks) == (7, (1, 2))
    assert str(error).startswith("step 7: rank 1 and 2 is gone")


def test_each_run_has_a_roll_of_its_own() -> None:
    first = Watch(ranks(1))
    first.missing()
    assert not Watch(ranks(1)).called()


def test_one_process_alone_is_not_watched() -> None:
    with watched(None) as watch:
        assert watch is None


def test_a_failed_message_becomes_the_name_of_the_missing_rank() -> None:
    def fail() -> None:
        with watched(ranks(2)) as watch:
            assert watch is not None
            watch.step = 4
            raise RuntimeError("connection closed by peer")

    with pytest.raises(RankError, match="step 4: rank 1 is gone") as caught:
        fail()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_while_all_ranks_are_there_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes differ") as caught, watched(ranks(1)):
        raise RuntimeError("shapes differ")
    assert type(caught.value) is RuntimeError


def test_a_watch_answers_the_roll_and_leaves_no_thread_and_no_handler() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with watched(ranks(1)) as watch:
        assert watch is not None
        assert any(thread.name == "bome-watch" for thread in threading.enumerate())
        watch._store.set(f"{watch._name}/call", "1")  # as another rank would
        end = threading.Event()
        for _ in range(50):
            if watch._store.check([f"{watch._name}/0"]):
                end.set()
                break
            end.wait(0.1)
        assert end.is_set()
    assert not any(thread.name == "bome-watch" for thread in threading.enumerate())
    after = signal.set_wakeup_fd(before)
    assert after == before
