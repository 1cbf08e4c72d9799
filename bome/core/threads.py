"""One thread for small matrices: more of them would mostly wait for each other, and for ever on a busy machine."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from threadpoolctl import threadpool_limits

SMALL = 1_000_000
"""Entries of a matrix up to which its products gain nothing from a second thread."""


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of numpy, scipy and torch for a while: for small tensors, and for each of several workers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def threads_for(entries: int) -> AbstractContextManager[None]:
    """Limit the threads of numpy, scipy and torch for a while, if the matrix is small."""
    return nullcontext() if entries > SMALL else one_thread()
