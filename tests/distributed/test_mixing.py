"""Ranks learn the mixture that one process learns from all their batches."""

import json
from typing import Any

import pytest

from tests.distributed import mixing, started


@pytest.fixture(scope="module")
def one() -> dict[str, list[float]]:
    return mixing.learned("one")


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_mixture_of_two_ddp_or_fsdp_ranks_is_that_of_one_process(
    kind: str, one: dict[str, list[float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found: Any = json.loads((started.fast(tmp_path_factory) / "mixtures.json").read_text())[kind]
    assert found["weights"] == pytest.approx(one["weights"], abs=1e-6)
    assert found["logits"] == pytest.approx(one["logits"], abs=1e-5)
    assert one["weights"] != pytest.approx([1 / 3] * 3, abs=1e-2)  # they have moved
