"""Pictures of digits, drawn at random from a pool; some labels can be made wrong."""

from functools import cache
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bome._checks import choose
from bome.data.digits import digits
from bome.data.sets import images

Pool = Literal["mnist", "digits"]
"""MNIST, or for tests the small digits that come with scikit-learn, with a twentieth of all sizes."""

CLASSES = 10


class Rows(NamedTuple):
    """Pixels in [0, 1], and classes."""

    x: Tensor
    y: Tensor


class Pictures(NamedTuple):
    """A pool.

    Attributes:
        train: to draw from.
        test: nobody sees it but judges.
        share: of the sizes and of the steps of judges; less than 1 in tests.
    """

    train: Rows
    test: Rows
    share: float

    @property
    def pixels(self) -> int:
        """Of a picture."""
        return self.train.x.shape[1]

    def scaled(self, number: int) -> int:
        """A number of rows or of steps."""
        return max(round(self.share * number), 2 * CLASSES)

    def drawn(self, seed: int, *sizes: int) -> list[Rows]:
        """Random rows without overlap."""
        order = torch.randperm(len(self.train.y), generator=torch.Generator().manual_seed(seed))
        ends = list(accumulate(map(self.scaled, sizes), initial=0))
        parts = [order[first:last] for first, last in pairwise(ends)]
        return [Rows(self.train.x[part], self.train.y[part]) for part in parts]

    def tested(self, seed: int, size: int) -> Rows:
        """Random rows of the test set."""
        part = torch.randperm(len(self.test.y), generator=torch.Generator().manual_seed(seed))[: self.scaled(size)]
        return Rows(self.test.x[part], self.test.y[part])


@cache
def pictures(pool: Pool) -> Pictures:
    """The pool of this name."""
    source = choose("pool of pictures", pool, {"mnist": lambda: images("mnist"), "digits": digits})()
    train, test = (
        Rows(x.flatten(1).float() / 255, y)
        for x, y in ((source.train, source.train_labels), (source.test, source.test_labels))
    )
    return Pictures(train, test, 1.0 if pool == "mnist" else 0.05)


def another_class(labels: Tensor, share: float, seed: int) -> Tensor:
    """The labels, this share of them replaced by another class, drawn uniformly."""
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(labels), generator=draw)[: round(share * len(labels))]
    wrong = labels.clone()
    wrong[chosen] = (labels[chosen] + torch.randint(1, CLASSES, (len(chosen),), generator=draw)) % CLASSES
    return wrong


def next_class(labels: Tensor, share: float, seed: int) -> Tensor:
    """The labels, this share of them moved to the next class."""
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[: round(share * len(labels))]
    wrong = labels.clone()
    wrong[chosen] = (labels[chosen] + 1) % CLASSES
    return wrong
