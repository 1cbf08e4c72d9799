"""Equal seeds give equal random numbers, of Python, NumPy and torch."""

import random

import numpy as np
import pytest
import torch

from bome.core.seeds import random_state, restore_random, seed_everything


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 5])
def test_equal_seeds_give_equal_numbers(seed: int) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002, S311

    seed_everything(seed)
    first = draw()
    assert draw() != first
    seed_everything(seed)
    assert draw() == first
    seed_everything(seed + 1)
    assert all(a != b for a, b in zip(draw(), first, strict=True))


def test_the_state_of_all_generators_can_be_put_back() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002, S311

    state = random_state()
    first = draw()
    assert draw() != first
    restore_random(state)
    assert draw() == first
