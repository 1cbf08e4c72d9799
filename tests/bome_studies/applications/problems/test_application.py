"""What applications share: streams, networks, training."""

import torch
from torch.nn.functional import mse_loss
from torch.optim import SGD, Adam

from bome.data import Constant, FixedBatches
from bome_studies.applications.problems.application import First, Source, accuracy, mlp, seeded, train


def test_a_source_gives_batches_by_seed_or_fixed_ones() -> None:
    source = Source((torch.arange(10.0), torch.arange(10)), 4)
    assert source.parts == 3
    first, again = source.stream(1), source.stream(1)
    assert torch.equal(first.next().rows, again.next().rows)
    assert not torch.equal(source.stream(2).next().rows, source.stream(1).next().rows)
    assert isinstance(source.stream(1, fixed=True), FixedBatches)


def test_training_is_gradient_descent_with_momentum() -> None:
    """By the formulas m ← 0.9 m + g, θ ← θ − 0.1 m on ½‖θ − 1‖² with two entries."""
    network = mlp(0, 1, 1)
    start = [x.detach().clone() for x in network.parameters()]
    x = torch.zeros(1, 1)
    train(network, lambda batch: mse_loss(network(x), torch.ones(1, 1)), Constant(), 2, 0.1, 0.9)
    bias, moment = start[1], torch.zeros(1)
    for _ in range(2):
        moment = 0.9 * moment + 2 * (bias - 1)
        bias = bias - 0.1 * moment
    weight, trained = network.parameters()
    torch.testing.assert_close(weight.detach(), start[0])
    torch.testing.assert_close(trained.detach(), bias)


def test_a_network_depends_on_its_seed_and_on_nothing_else() -> None:
    state = torch.get_rng_state()
    one, two, other = mlp(3, 4, 5, 2), mlp(3, 4, 5, 2), mlp(4, 4, 5, 2)
    assert torch.equal(torch.get_rng_state(), state)
    x = torch.ones(1, 4)
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), other(x))
    with seeded(5):
        drawn = torch.rand(1)
    with seeded(5):
        assert torch.equal(torch.rand(1), drawn)


def test_the_learning_rate_of_v_takes_a_factor() -> None:
    v = torch.zeros(1, requires_grad=True)
    opt = First(0.5).outer_opt([v], 0.3)
    assert isinstance(opt, Adam)
    assert opt.param_groups[0]["lr"] == 0.15
    assert isinstance(First(0.5, outer=SGD).outer_opt([v]), SGD)


def test_accuracy_is_the_share_of_right_answers() -> None:
    assert accuracy(torch.eye(4), torch.tensor([0, 1, 2, 0])) == 0.75
