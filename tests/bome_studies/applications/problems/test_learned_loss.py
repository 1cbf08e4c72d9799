"""A learned loss: with the identity it is cross-entropy, with the right matrix it repairs the labels."""

import torch
from torch.nn.functional import cross_entropy

from bome_studies.applications.problems.learned_loss import learned_loss
from bome_studies.applications.problems.pictures import pictures


def test_without_confusion_it_is_cross_entropy() -> None:
    application = learned_loss(pictures("digits"), 0)
    theta, batch = application.problem.theta.value, application.data(0).inner.next()
    x, y = batch.data
    g = application.problem.inner(200 * torch.eye(10), theta, batch)
    torch.testing.assert_close(g, cross_entropy(theta(x), y))


def test_labels_move_to_the_next_class_and_the_right_matrix_says_so() -> None:
    pool = pictures("digits")
    application = learned_loss(pool, 0)
    rows, _ = pool.drawn(0, 1500, 300)
    assert application.inner is not None
    moves = (application.inner.rows[1] - rows.y) % 10
    assert set(moves.tolist()) == {0, 1}
    assert abs(float(moves.double().mean()) - 0.45) < 0.01
    start = application.judge()
    assert start == learned_loss(pool, 0).judge()
    assert application.by_hand["the right matrix"]().F < start.F
