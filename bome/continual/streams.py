"""Streams of tasks for continual learning: permuted MNIST, Split CIFAR-100, and a small twin of digits.

Tasks come one after the other, each a single time, and the identity of the task is given. Every stream exists in two
parts which share no task: that for *learning*, on which results are reported, and that for *tuning* hyper-parameters.
The tuning tasks are judged by training images held out, so that no test image has an influence on any choice.

| stream | learning | tuning | classes of a task |
|---|---|---|---|
| `continual-pmnist` | 20 permutations of the pixels, 1,000 training images each, 10,000 test images | 3 more | all 10 |
| `continual-cifar` | 17 groups of 5 classes, 2,500 training and 500 test images each | 3 more | 5 of its own |
| `continual-digits` | 3 permutations of the pixels, 100 training images each, 397 test images | 2 more | all 10 |

The permutations of pixels and classes are the same for every seed, as published. The seed draws the training images
and their order, and the start of the networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from bome.continual.networks import Controller, Mlp, ReducedResNet
from bome.data.digits import digits
from bome.data.sets import Images, images
from bome.errors import ProblemError

Part = Literal["learning", "tuning"]
"""Which tasks of a stream."""

ARRANGEMENT = 0
"""The seed of the permutations of pixels and classes."""


class Labelled(NamedTuple):
    """Samples of one or several tasks.

    Attributes:
        x: images with pixels between 0 and 1.
        y: the class of each, counted within its task.
        task: the number of its task.
    """

    x: Tensor
    y: Tensor
    task: Tensor


class Networks(NamedTuple):
    """The base network, whose parameters are θ, and the controller, whose parameters are v."""

    base: nn.Module
    controller: Controller


@dataclass(frozen=True)
class Stream:
    """Tasks in order.

    Attributes:
        name: on the command line.
        part: "learning" or "tuning".
        train: bytes of shape (tasks, samples, ...): the training images of each task in the order they come.
        train_labels: their classes within the task.
        test: bytes of shape (tasks or 1, samples, ...): the images that judge.
        test_labels: their classes within the task.
        views: for each task the order of the pixels in which it shows the test images, where all tasks share them.
        classes: of a task.
        shared_head: whether all tasks have the same classes.
        seed: what was drawn with.
    """

    name: str
    part: Part
    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    views: Tensor | None
    classes: int
    shared_head: bool
    seed: int

    @property
    def tasks(self) -> int:
        """How many there are."""
        return len(self.train)

    @property
    def samples(self) -> int:
        """Training samples of each."""
        return self.train.shape[1]

    @property
    def outputs(self) -> int:
        """Scores that a network must give."""
        return self.classes if self.shared_head else self.classes * self.tasks

    def training(self, task: Tensor, row: Tensor) -> Labelled:
        """Training samples by their task and their number in it."""
        return Labelled(scale(self.train[task, row]), self.train_labels[task, row], task)

    def held_out(self, task: int) -> Labelled:
        """The samples that judge a task; never given to a strategy."""
        place = task if len(self.test) > 1 else 0
        x = scale(self.test[place])
        if self.views is not None:
            x = x[:, self.views[task]]
        return Labelled(x, self.test_labels[place], torch.full((len(x),), task))

    def scores(self, all_scores: Tensor, task: Tensor) -> Tensor:
        """Of the scores of all classes those of the classes of each sample's task."""
        if self.shared_head:
            return all_scores
        by_task = all_scores.view(len(all_scores), self.tasks, self.classes)
        return by_task.gather(1, task[:, None, None].expand(-1, 1, self.classes))[:, 0]

    def networks(self, *, modulated: bool) -> Networks:
        """Fresh networks drawn with the seed: with features for a controller, or of the usual kind without one."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(_mixed(self.seed, "networks"))
            if self.train.dim() > 3:
                resnet = ReducedResNet(self.outputs, rectified=not modulated)
                return Networks(resnet, Controller(self.tasks, 64, resnet.modulated, constant_norms=True))
            hidden = 256 if self.train.shape[2] > 100 else 32
            mlp = Mlp([self.train.shape[2], hidden, hidden, self.outputs])
            return Networks(mlp, Controller(self.tasks, 16, mlp.modulated))


def scale(pixels: Tensor) -> Tensor:
    """Bytes as numbers between 0 and 1; colours come first."""
    x = pixels.float() / 255
    # Channels stay last in memory, with which convolutions take a fifth less time.
    return x.permute(0, 3, 1, 2) if x.dim() == 4 else x


def continual_pmnist(seed: int = 0, part: Part = "learning") -> Stream:
    """Permuted MNIST: 20 tasks of 1,000 images, or 3 for tuning."""
    return _permuted("continual-pmnist", images("mnist"), seed, part, Sizes(20, 3, 1_000, 10_000))


def continual_digits(seed: int = 0, part: Part = "learning") -> Stream:
    """The small digits of scikit-learn, permuted: 3 tasks of 100 images, or 2 for tuning; for tests."""
    return _permuted("continual-digits", digits(), seed, part, Sizes(3, 2, 100, 200))


def continual_cifar(seed: int = 0, part: Part = "learning") -> Stream:
    """Split CIFAR-100: 17 tasks of 5 classes, after 3 for tuning; 2,500 training and 500 test images each.

    Of the tuning tasks 2,000 of the training images are for training and 500 judge.
    """
    cifar = images("cifar-100")
    order = torch.randperm(100, generator=_generator(ARRANGEMENT, "classes")).view(20, 5)
    groups = order[:3] if _checked(part) == "tuning" else order[3:]
    draw = _generator(seed, part)
    train = [_of_classes(cifar.train, cifar.train_labels, group) for group in groups]
    rows = [torch.randperm(len(labels), generator=draw) for _, labels in train]
    x = torch.stack([pixels[order] for (pixels, _), order in zip(train, rows, strict=True)])
    y = torch.stack([labels[order] for (_, labels), order in zip(train, rows, strict=True)])
    if part == "tuning":
        judging = x[:, 2_000:], y[:, 2_000:]
        x, y = x[:, :2_000], y[:, :2_000]
    else:
        test = [_of_classes(cifar.test, cifar.test_labels, group) for group in groups]
        judging = torch.stack([pixels for pixels, _ in test]), torch.stack([labels for _, labels in test])
    return Stream("continual-cifar", part, x, y, *judging, None, 5, False, seed)


STREAMS: dict[str, Callable[..., Stream]] = {
    "continual-pmnist": continual_pmnist,
    "continual-cifar": continual_cifar,
    "continual-digits": continual_digits,
}
"""Every stream of tasks by its name on the command line."""


def about_stream(name: str) -> str:
    """A line on a stream; empty if there is none of this name."""
    return ((STREAMS[name].__doc__ or "") if name in STREAMS else "").split("\n")[0]


class Sizes(NamedTuple):
    """Tasks for learning and tuning, training images of each, and images that judge the tuning tasks."""

    learning: int
    tuning: int
    samples: int
    judging: int


def _permuted(name: str, source: Images, seed: int, part: Part, sizes: Sizes) -> Stream:
    pixels, labels = source.train.flatten(1), source.train_labels
    arrange = _generator(ARRANGEMENT, "pixels")
    views = torch.stack(
        [torch.randperm(pixels.shape[1], generator=arrange) for _ in range(sizes.tuning + sizes.learning)]
    )
    test, test_labels = source.test.flatten(1), source.test_labels
    if _checked(part) == "tuning":  # the last training images judge, and the others train
        views = views[: sizes.tuning]
        test, test_labels = pixels[-sizes.judging :], labels[-sizes.judging :]
        pixels, labels = pixels[: -sizes.judging], labels[: -sizes.judging]
    else:
        views = views[sizes.tuning :]
    draw = _generator(seed, part)
    rows = torch.stack([torch.randperm(len(pixels), generator=draw)[: sizes.samples] for _ in views])
    train = torch.stack([pixels[row][:, view] for row, view in zip(rows, views, strict=True)])
    return Stream(name, part, train, labels[rows], test[None], test_labels[None], views, 10, True, seed)


def _of_classes(pixels: Tensor, labels: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """The images of some classes, and their places in the group."""
    rows = torch.isin(labels, group)
    return pixels[rows], (labels[rows][:, None] == group).long().argmax(dim=1)


def _checked(part: Part) -> Part:
    if part not in ("learning", "tuning"):
        raise ProblemError(f"part must be 'learning' or 'tuning', got {part!r}")
    return part


def _mixed(seed: int, purpose: str) -> int:
    """A seed for one purpose, so that streams of random numbers do not repeat each other."""
    return (seed * 1_000_003 + int.from_bytes(purpose.encode()[:6])) % 2**63


def _generator(seed: int, purpose: str) -> torch.Generator:
    return torch.Generator().manual_seed(_mixed(seed, purpose))
