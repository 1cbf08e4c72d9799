"""Meta-Weight-Net: weights come from losses, and do not teach through them."""

import torch
from torch.nn.functional import cross_entropy

from bome_studies.applications.problems.meta_weights import meta_weights
from bome_studies.applications.problems.pictures import pictures


def test_g_is_the_weighted_mean_and_v_sees_losses_as_numbers() -> None:
    application = meta_weights(pictures("digits"), 0)
    v, theta = application.problem.v.value, application.problem.theta.value
    batch = application.data(0).inner.next()
    x, y = batch.data
    with torch.no_grad():
        losses = cross_entropy(theta(x), y, reduction="none")
        weights = torch.stack([v(loss.view(1, 1)).squeeze() for loss in losses])
    g = application.problem.inner(v, theta, batch)
    torch.testing.assert_close(g.detach(), (weights * losses).sum() / weights.sum())
    expected = torch.autograd.grad((weights * cross_entropy(theta(x), y, reduction="none")).sum() / weights.sum(),
                                   list(theta.parameters()))  # fmt: skip
    torch.testing.assert_close(torch.autograd.grad(g, list(theta.parameters())), expected)


def test_half_of_the_labels_are_wrong_and_the_judge_is_determined_by_the_seed() -> None:
    pool = pictures("digits")
    application = meta_weights(pool, 1)
    assert application.inner is not None
    (rows, _) = pool.drawn(1, 3000, 200)
    assert float((application.inner.rows[1] != rows.y).double().mean()) == 0.5
    assert application.judge() == meta_weights(pool, 1).judge()
    assert application.judge() != meta_weights(pool, 2).judge()
