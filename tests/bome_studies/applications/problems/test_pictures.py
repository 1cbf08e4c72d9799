"""Pictures are drawn without overlap, and labels are made wrong as often as asked."""

import torch

from bome_studies.applications.problems.pictures import another_class, next_class, pictures


def test_parts_do_not_overlap_and_depend_on_the_seed() -> None:
    pool = pictures("digits")
    one, other = pool.drawn(0, 3000, 2000)
    assert (len(one.y), len(other.y)) == (150, 100)
    both = torch.cat([one.x, other.x])
    assert not any(torch.equal(a, b) for i, a in enumerate(both[:50]) for b in both[i + 1 : i + 50])
    assert torch.equal(pool.drawn(0, 3000)[0].x, one.x)
    assert not torch.equal(pool.drawn(1, 3000)[0].x, one.x)
    assert float(both.max()) == 1.0


def test_wrong_labels_are_another_class() -> None:
    labels = torch.arange(10).repeat(100)
    wrong = another_class(labels, 0.3, 0)
    assert int((wrong != labels).sum()) == 300
    moves = ((wrong - labels) % 10)[wrong != labels].bincount(minlength=10)
    assert moves[0] == 0
    assert moves[1:].min() > 15  # 33 on average
    assert torch.equal(another_class(labels, 0.3, 0), wrong)


def test_moved_labels_are_the_next_class() -> None:
    labels = torch.arange(10).repeat(100)
    moved = next_class(labels, 0.45, 0)
    assert ((moved - labels) % 10).bincount().tolist() == [550, 450]
