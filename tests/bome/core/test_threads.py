"""One thread for small work, and the old number afterwards."""

import pytest
import torch

from bome.core.threads import SMALL, one_thread, threads_for


@pytest.fixture(autouse=True)
def _three() -> None:
    torch.set_num_threads(3)  # the next test starts with one again


def test_one_thread_ends_with_the_work_even_if_that_fails() -> None:
    def fails() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("entries", "threads"), [(SMALL, 1), (SMALL + 1, 3)])
def test_only_small_matrices_are_limited(entries: int, threads: int) -> None:
    with threads_for(entries):
        assert torch.get_num_threads() == threads
