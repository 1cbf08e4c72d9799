"""Candidates: evenly spread over a run of any length, the first among them."""

import pytest
import torch

from bome.worth.candidates import MOST, Candidates, copies


def _after(steps: int) -> Candidates:
    kept = Candidates()
    for k in range(steps):
        if kept.due(k):
            kept.add(k, torch.tensor(float(k)), (torch.tensor([k, -k]),))
    return kept


@pytest.mark.parametrize(("steps", "stride"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (1000, 128), (1025, 256)])
def test_every_stride_th_v_is_kept_from_the_first_on(steps: int, stride: int) -> None:
    """With 9 the stride doubles: 4 or more remain, and never more than 8."""
    found = _after(steps)
    assert found.stride == stride
    assert [candidate.step for candidate in found.kept] == list(range(0, steps, stride))
    assert len(found.kept) <= MOST
    assert all(x.f == x.step and x.v[0].tolist() == [x.step, -x.step] for x in found.kept)


def test_they_come_back_and_go_on_as_if_nothing_had_happened() -> None:
    for at in range(1, 40):
        before, after = _after(at), Candidates()
        after.load_state_dict(before.state_dict(), (torch.zeros(2),))
        for k in range(at, 40):
            if after.due(k):
                after.add(k, torch.tensor(float(k)), (torch.tensor([k, -k]),))
        assert str(after.state_dict()) == str(_after(40).state_dict())


def test_copies_are_copies() -> None:
    x = torch.ones(2)
    (y,) = copies((x,))
    x.zero_()
    assert y.tolist() == [1, 1]
