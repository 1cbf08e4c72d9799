"""Random divisions of images into training, validation and test samples, with noise in the training labels."""

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from bome.data.digits import digits
from bome.data.sets import Images, images
from bome.tasks.softmax import Samples, with_one


class Pool(NamedTuple):
    """The images that splits are drawn from, shared by all of them.

    Attributes:
        pixels: between 0 and 1, of shape (n, d).
        labels: the right ones.
        test: as `pixels`, the images that judge.
        test_labels: theirs.
        classes: how many there are.
        sizes: of the training set and of the two validation sets.
    """

    pixels: Tensor
    labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int
    sizes: tuple[int, int, int]


class Split:
    """A random division into training, two validation sets and test, with noise in the training labels.

    Attributes:
        pool: where the images come from.
        rows: the training samples among those of the pool.
        labels: their right labels.
        noisy: their labels, a half of which are drawn anew from all classes.
        clean: which of these are right nevertheless.
        mean: the mean of all pixels of the training samples.
        scale: the factor that brings the deviation from it to 1.
    """

    def __init__(self, pool: Pool, seed: int) -> None:
        draw, (train, *_) = torch.Generator().manual_seed(seed), pool.sizes
        order = torch.randperm(len(pool.pixels), generator=draw)[: sum(pool.sizes)]
        self.pool = pool
        self.rows, self.first, self.second = torch.split(order, list(pool.sizes))
        self.labels = pool.labels[self.rows]
        changed = torch.randperm(train, generator=draw)[: train // 2]
        self.noisy = self.labels.clone()
        self.noisy[changed] = torch.randint(pool.classes, (len(changed),), generator=draw)
        self.clean = self.noisy == self.labels
        deviation, self.mean = torch.std_mean(pool.pixels[self.rows])
        self.scale = 1 / (deviation + 1e-4)

    @cached_property
    def train(self) -> Samples:
        """The training samples with their noisy labels."""
        return Samples(self._scaled(self.pool.pixels[self.rows]), self.noisy)

    @cached_property
    def validation(self) -> Samples:
        """The samples of f."""
        return Samples(self._scaled(self.pool.pixels[self.first]), self.pool.labels[self.first])

    @cached_property
    def validation_2(self) -> Samples:
        """The samples that choose hyper-parameters."""
        return Samples(self._scaled(self.pool.pixels[self.second]), self.pool.labels[self.second])

    @cached_property
    def test(self) -> Samples:
        """The samples that judge."""
        return Samples(self._scaled(self.pool.test), self.pool.test_labels)

    @property
    def corrected(self) -> Samples:
        """The training samples with their right labels."""
        return self.train._replace(labels=self.labels)

    def _scaled(self, pixels: Tensor) -> Tensor:
        return with_one((pixels - self.mean) * self.scale)

    def share_of(self, rows: Tensor) -> Tensor:
        """The weight of each sample of the pool in the mean over some of them."""
        share = torch.zeros(len(self.pool.pixels))
        share[rows] = 1 / len(rows)
        return share


def together(*samples: Samples) -> Samples:
    """Several sets as one."""
    return Samples(torch.cat([s.x for s in samples]), torch.cat([s.labels for s in samples]))


SOURCES: Mapping[str, tuple[Callable[[], Images], tuple[int, int, int]]] = {
    "hyperclean-mnist": (lambda: images("mnist"), (50_000, 5_000, 5_000)),
    "hyperclean-fashion": (lambda: images("fashion-mnist"), (50_000, 5_000, 5_000)),
    "hyperclean-digits": (digits, (1_000, 200, 200)),
}
"""Where the images of each task come from, and the sizes of its splits."""


@lru_cache(maxsize=1)
def pool_of(name: str) -> Pool:
    """The images of a task."""
    load, sizes = SOURCES[name]
    data = load()

    def pixels(images: Tensor) -> Tensor:
        return images.flatten(1).float() / 255

    return Pool(
        pixels(data.train), data.train_labels, pixels(data.test), data.test_labels, len(data.classes), sizes
    )  # fmt: skip


@lru_cache(maxsize=8)
def split_of(name: str, seed: int) -> Split:
    """The split of a task that a seed draws."""
    return Split(pool_of(name), seed)
