"""A small search of architectures: the mixture by hand, and the judge of a choice."""

import math

import torch

from bome_studies.applications.problems.operations import Layer, Searched, operations
from bome_studies.applications.problems.pictures import pictures


def test_a_layer_mixes_four_operations() -> None:
    layer, h = Layer(), torch.randn(3, 32)
    kinds = (torch.relu(layer.a(h)), torch.sin(5 * layer.b(h)), h, torch.zeros_like(h))
    for share, expected in zip(torch.eye(4), kinds, strict=True):
        torch.testing.assert_close(layer(h, share), expected)


def test_zero_in_a_layer_leaves_nothing_to_learn_from() -> None:
    network, x = Searched(64), torch.randn(3, 64)
    scores = network(x, torch.eye(4)[[0, 3]])
    assert torch.equal(scores, scores[:1].expand(3, -1))


def test_the_judge_trains_the_chosen_network_and_ties_are_the_mean() -> None:
    application = operations(pictures("digits"), 0)
    scores = application.problem.v.leaves[0]
    with torch.no_grad():
        worths = []
        for best in ((0, 3), (1, 3), (2, 3), (3, 3)):
            scores.zero_()
            scores[0, best[0]] = scores[1, best[1]] = 1.0
            with torch.enable_grad():
                worths.append(application.judge())
        scores.zero_()
        scores[1, 3] = 1.0
    tied = application.judge()
    assert abs(tied.F - sum(worth.F for worth in worths) / 4) < 1e-6
    assert all(worth.test is not None and worth.test < 0.3 for worth in worths)  # nothing comes through


def test_the_best_of_all_is_no_worse_than_any() -> None:
    application = operations(pictures("digits"), 0)
    best = application.by_hand["best of all 16"]()
    assert best.F < application.judge().F  # the mean over all
    with torch.no_grad():
        application.problem.v.leaves[0].fill_(float("nan"))
    assert math.isinf(application.judge().F)
