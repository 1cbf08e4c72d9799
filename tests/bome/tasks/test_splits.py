"""Splits of images: disjoint, noisy as said, and scaled by their own training samples."""

import numpy as np
import pytest
import torch

from bome.tasks.hyperclean import start_model
from bome.tasks.splits import Split, split_of
from tests.support.data_tasks import images, scaled


def test_a_split_divides_all_images_into_disjoint_parts_and_leaves_test_alone() -> None:
    split = split_of("hyperclean-digits", 0)
    parts = [split.rows, split.first, split.second]
    assert [len(part) for part in parts] == [1000, 200, 200]
    assert sorted(torch.cat(parts).tolist()) == list(range(1400))
    pixels, labels = images()
    assert torch.equal(split.pool.test, torch.from_numpy(pixels[1400:]).float())
    assert split.test.labels.tolist() == labels[1400:].tolist()
    assert split.labels.tolist() == labels[split.rows.numpy()].tolist()
    assert split.validation.labels.tolist() == labels[split.first.numpy()].tolist()


def test_half_of_the_training_labels_are_drawn_anew_from_all_classes() -> None:
    wrong = [int((split_of("hyperclean-digits", seed).noisy != split_of("hyperclean-digits", seed).labels).sum())
             for seed in range(6)]  # fmt: skip
    assert max(wrong) <= 500
    # 500 labels are drawn, 9 of 10 of them wrong: 450 on average, with a deviation of 6.7 for each seed.
    assert np.mean(wrong) == pytest.approx(450, abs=4 * 6.7 / np.sqrt(6))
    split = split_of("hyperclean-digits", 0)
    drawn = split.noisy[~split.clean]
    assert set(drawn.tolist()) == set(range(10))
    assert torch.equal(split.corrected.labels, split.labels)
    assert torch.equal(split.validation.labels, split.pool.labels[split.first])


def test_each_seed_has_a_split_noise_and_start_of_its_own_and_always_the_same() -> None:
    first, second = split_of("hyperclean-digits", 0), split_of("hyperclean-digits", 1)
    again = Split(first.pool, 0)
    assert torch.equal(first.rows, again.rows)
    assert torch.equal(first.noisy, again.noisy)
    assert not torch.equal(first.rows, second.rows)
    assert not torch.equal(first.rows.sort().values, second.rows.sort().values)
    assert not torch.equal(first.clean, second.clean)
    one, other = (start_model(first.pool, seed)["weight"] for seed in (0, 1))
    assert not torch.equal(one, other)
    assert one.abs().max() <= 1 / 8


def test_pixels_are_scaled_by_the_mean_and_deviation_of_the_training_set_alone() -> None:
    x, rows, split = scaled()
    for samples, which in ((split.train, rows), (split.validation, split.first), (split.validation_2, split.second)):
        np.testing.assert_allclose(samples.x[:, :-1].numpy(), x[which], atol=2e-6)
        assert torch.equal(samples.x[:, -1], torch.ones(len(samples.x)))
    np.testing.assert_allclose(split.test.x[:, :-1].numpy(), x[1400:], atol=2e-6)
