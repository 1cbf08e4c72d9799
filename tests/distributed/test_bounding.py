"""λ of the step that bounds leave: that of two ranks is that of one process."""

import json
from typing import Any

import pytest

from tests.distributed import bounding, started

Found = dict[str, list[float]]


@pytest.fixture(scope="module")
def one() -> Found:
    return bounding.bounded("one")


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_bounded_steps_of_two_ddp_or_fsdp_ranks_are_those_of_one_process(
    kind: str, one: Found, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found: Any = json.loads((started.fast(tmp_path_factory) / "bounded.json").read_text())[kind]
    assert found["lam"] == pytest.approx(one["lam"], abs=1e-6)
    assert found["v"] == pytest.approx(one["v"], abs=1e-6)
    assert found["theta"] == pytest.approx(one["theta"], abs=1e-6)


def test_bounds_of_v_and_of_theta_are_active_and_matter_to_the_multiplier(one: Found) -> None:
    """Else the comparison would say nothing."""
    assert any(abs(x) == pytest.approx(bounding.MOST, rel=1e-6) for x in one["v"])
    held = [abs(x) == pytest.approx(bounding.LARGEST, rel=1e-6) for x in one["theta"]]
    assert 20 < sum(held) < len(held)
    for left, of_all in zip(one["lam"], bounding.bounded("one", "all")["lam"], strict=True):
        assert left != pytest.approx(of_all, rel=1e-2)
