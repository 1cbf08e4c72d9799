"""Memory that is counted."""

import torch

from bome_studies.ledger import Ledger


def test_the_bytes_that_live_at_the_same_time_are_added_up() -> None:
    before = torch.ones(100)
    with Ledger() as ledger:
        a = before + 1  # 400 bytes
        b = a.view(10, 10)  # no memory of its own
        c = torch.cat([a, a])  # 800
        assert (ledger.live, ledger.largest) == (1200, 800)
        del c
        d = b.double()  # 800, where c was freed
        assert (ledger.live, ledger.peak) == (1200, 1200)
        del a, b, d
    assert (ledger.live, ledger.peak) == (0, 1200)


def test_tensors_from_before_count_for_nothing() -> None:
    before = torch.ones(1000)
    with Ledger() as ledger:
        before.mul_(2)
    assert (ledger.live, ledger.peak, ledger.largest) == (0, 0, 0)
