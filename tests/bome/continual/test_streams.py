"""Streams of tasks."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome.continual import streams
from bome.continual.streams import continual_cifar, continual_digits, continual_pmnist
from bome.data.digits import digits
from bome.data.sets import Images
from bome.errors import ProblemError
from tests.support.small_streams import small_stream


def random_images(n: int, test: int, shape: tuple[int, ...], classes: int) -> Images:
    draw = torch.Generator().manual_seed(0)
    x, xt = (torch.randint(256, (m, *shape), dtype=torch.uint8, generator=draw) for m in (n, test))
    return Images(x, torch.arange(n) % classes, xt, torch.arange(test) % classes, tuple(map(str, range(classes))))


def keys(pixels: Tensor) -> list[bytes]:
    """Each image by its bytes."""
    return [image.numpy().tobytes() for image in pixels]


def test_a_stream_is_drawn_with_its_seed_but_its_permutations_are_not() -> None:
    a, b, c = continual_digits(0), continual_digits(0), continual_digits(1)
    assert torch.equal(a.train, b.train)
    assert not torch.equal(a.train, c.train)
    assert a.views is not None
    assert c.views is not None
    assert torch.equal(a.views, c.views)
    first, second = (stream.networks(modulated=True).base.state_dict() for stream in (a, b))
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = c.networks(modulated=True).base.state_dict()
    assert not torch.equal(first["layers.0.weight"], other["layers.0.weight"])


def test_the_images_of_a_task_are_permuted_as_those_that_judge_it() -> None:
    """Put back in order, every training image is one of the training part, and the test images are the test part."""
    stream, found = continual_digits(3), digits()
    assert stream.views is not None
    known = {row.numpy().tobytes(): int(y) for row, y in zip(found.train.flatten(1), found.train_labels, strict=True)}
    for task in range(stream.tasks):
        back = torch.argsort(stream.views[task])
        for row, y in zip(stream.train[task][:, back], stream.train_labels[task], strict=True):
            assert known[row.numpy().tobytes()] == int(y)
        judging = stream.held_out(task)
        assert torch.equal((judging.x[:, back] * 255).round().to(torch.uint8), found.test.flatten(1))
        assert torch.equal(judging.y, found.test_labels)
        assert set(judging.task.tolist()) == {task}


def test_tuning_has_tasks_of_its_own_and_never_sees_a_test_image() -> None:
    learning, tuning, found = continual_digits(0), continual_digits(0, "tuning"), digits()
    assert learning.views is not None
    assert tuning.views is not None
    views = {tuple(view) for view in learning.views.tolist()}
    assert not views & {tuple(view) for view in tuning.views.tolist()}
    judging = set(keys(tuning.test[0]))
    assert judging <= set(keys(found.train.flatten(1)))
    for task in range(tuning.tasks):
        assert not judging & set(keys(tuning.train[task][:, tuning.views[task].argsort()]))
    with pytest.raises(ProblemError, match="learning"):
        continual_digits(0, "other")  # type: ignore[arg-type]


def test_permuted_mnist_has_the_sizes_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "images", lambda name: random_images(12_000, 100, (28, 28), 10))
    stream = continual_pmnist(0)
    assert (stream.tasks, stream.samples, stream.outputs) == (20, 1_000, 10)
    assert continual_pmnist(0, "tuning").tasks == 3
    base, controller = stream.networks(modulated=True)
    assert sum(p.numel() for p in base.parameters()) == 269_322
    assert sum(p.numel() for p in controller.parameters()) == 17_728


def test_split_cifar_shares_out_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = random_images(50_000, 10_000, (1, 4, 3), 100)  # enough pixels for no two to be equal
    monkeypatch.setattr(streams, "images", lambda name: found)
    learning, tuning = continual_cifar(0), continual_cifar(0, "tuning")
    assert (learning.tasks, learning.samples, learning.outputs) == (17, 2_500, 85)
    assert learning.test.shape[:2] == (17, 500)
    assert (tuning.tasks, tuning.samples, tuning.test.shape[1]) == (3, 2_000, 500)
    assert all(set(labels.tolist()) == set(range(5)) for labels in learning.train_labels)
    kinds = {key: ("train", i % 100) for i, key in enumerate(keys(found.train))}
    kinds |= {key: ("test", i % 100) for i, key in enumerate(keys(found.test))}
    seen, judged, tried, judging = (
        [{kinds[key] for key in keys(task)} for task in pixels]
        for pixels in (learning.train, learning.test, tuning.train, tuning.test)
    )
    assert {part for task in seen + tried + judging for part, _ in task} == {"train"}
    assert {part for task in judged for part, _ in task} == {"test"}
    for a, b in zip(seen + tried, judged + judging, strict=True):
        assert {c for _, c in a} == {c for _, c in b}  # a task is judged by its own classes
    classes = [c for task in seen + tried for _, c in task]
    assert sorted(classes) == list(range(100))  # no class is in two tasks
    for task in range(3):
        assert not set(keys(tuning.train[task])) & set(keys(tuning.test[task]))
    x = learning.training(torch.tensor([0, 16]), torch.tensor([0, 1])).x
    assert x.shape == (2, 3, 1, 4)
    assert learning.held_out(3).x.shape == (500, 3, 1, 4)


def test_scores_of_other_tasks_are_as_good_as_masked() -> None:
    """With a head for each task, gathering its scores gives the losses of scores masked by −∞ elsewhere."""
    stream = small_stream(shared=False)
    scores = torch.randn(8, stream.outputs, generator=torch.Generator().manual_seed(0))
    task, y = torch.arange(8) % 3, torch.arange(8) % 3
    masked = torch.full_like(scores, -1e11)
    for i in range(8):
        masked[i, 3 * task[i] : 3 * task[i] + 3] = scores[i, 3 * task[i] : 3 * task[i] + 3]
    expected = cross_entropy(masked, 3 * task + y, reduction="none")
    torch.testing.assert_close(cross_entropy(stream.scores(scores, task), y, reduction="none"), expected)
