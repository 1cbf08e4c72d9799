"""Micro-batches: a batch in parts is the batch, for every oracle and every method."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from bome import BOME, GradientDescent, MicroBatches, PerSample, Problem, Stepper
from bome.errors import ProblemError, UnsupportedError
from bome.methods import AIDCG, ITD
from bome.methods.base import Method
from bome.oracles import OracleName, make
from bome_studies.matrix import models as models

X = torch.linspace(-1, 1, 36, dtype=torch.float64).reshape(12, 3).sin()
Y = X.sum(1).cos()
METHOD = BOME(GradientDescent(0.1, 3))


def inner(w: Tensor, net: nn.Module, batch: Any) -> Tensor:
    x, y = batch[:2]
    loss: Tensor = (w.exp() * (net(x).squeeze(1) - y).square()).mean()
    return loss


def outer(w: Tensor, net: nn.Module, batch: Any) -> Tensor:
    x, y = batch[:2]
    loss: Tensor = (net(x).squeeze(1) - y - 1).square().mean()
    return loss


def linear(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), *layers, nn.Tanh(), nn.Linear(4, 1)).double()


def end(batch: Any, oracle: OracleName, method: Method = METHOD, net: nn.Module | None = None) -> Tensor:
    net, v = net if net is not None else linear(), torch.zeros((), dtype=torch.float64)
    stepper = Stepper(Problem(outer, inner, v, net), method, SGD([v], 0.1), SGD(net.parameters(), 0.1), oracle)
    for _ in range(3):
        stepper.step(inner=batch, outer=batch)
    return torch.cat([v.reshape(1), *(p.detach().reshape(-1) for p in net.parameters())])


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("oracle", ["autograd", "func", "backward"])
def test_equal_parts_make_the_step_of_the_whole_batch(oracle: OracleName, parts: int) -> None:
    batch = MicroBatches([(X[i::parts], Y[i::parts]) for i in range(parts)])
    assert torch.allclose(end(batch, oracle), end((X, Y), oracle), rtol=0, atol=1e-12)


@pytest.mark.parametrize("oracle", ["autograd", "func", "backward"])
def test_parts_of_different_sizes_count_by_their_weights(oracle: OracleName) -> None:
    parts = [(X[:7], Y[:7]), (X[7:], Y[7:])]
    assert torch.allclose(end(MicroBatches(parts, [7, 5]), oracle), end((X, Y), oracle), rtol=0, atol=1e-12)
    assert not torch.allclose(end(MicroBatches(parts), oracle), end((X, Y), oracle), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", [ITD(GradientDescent(0.1, 3)), AIDCG(GradientDescent(0.1, 3), K=2)])
def test_second_order_methods_take_parts(method: Method) -> None:
    batch = MicroBatches([(X[::2], Y[::2]), (X[1::2], Y[1::2])])
    assert torch.allclose(end(batch, "auto", method), end((X, Y), "auto", method), rtol=0, atol=1e-10)


def test_a_step_on_parts_counts_as_one_on_the_whole() -> None:
    v = torch.zeros((), dtype=torch.float64)
    stepper = Stepper(Problem(outer, inner, v, linear()), METHOD, SGD([v], 0.1))
    stepper.step(inner=MicroBatches([(X[:6], Y[:6]), (X[6:], Y[6:])]), outer=(X, Y))
    assert stepper.counts == {"g": 4, "f": 1}


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
def test_running_statistics_see_every_part_once(oracle: OracleName) -> None:
    norm = nn.BatchNorm1d(4)
    end(MicroBatches([(X[::2], Y[::2]), (X[1::2], Y[1::2])]), oracle, net=linear(norm))
    assert int(norm.num_batches_tracked) == 3 * 2  # type: ignore[arg-type]


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
def test_rows_of_samples_are_found_in_every_part(oracle: OracleName) -> None:
    def weights(batch: Any) -> Tensor:
        table, net = PerSample(12, dtype=torch.float64), linear()
        stepper = Stepper(Problem(outer, inner, table, net), METHOD, SGD([table.values], 5.0), oracle=oracle)
        for _ in range(2):
            stepper.step(inner=batch, outer=(X, Y))
        return table.values

    rows = torch.arange(12)
    batch = MicroBatches([(X[i::3], Y[i::3], rows[i::3]) for i in range(3)])
    whole = weights((X, Y, rows))
    assert torch.allclose(weights(batch), whole, rtol=0, atol=1e-12)
    assert whole.std() > 1e-4


def test_mistakes_are_refused() -> None:
    for arguments, word in ((([],), "at least one part"), (([1, 2], [1.0]), "weight"), (([1], [0.0]), "positive")):
        with pytest.raises(ProblemError, match=word):
            MicroBatches(*arguments)
    with pytest.raises(ProblemError, match="parts are batches"):
        MicroBatches([MicroBatches([1])])


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
def test_autocast_around_a_step_is_autocast_inside_the_losses(oracle: OracleName) -> None:
    """Autocast keeps the cast parameters, which change in place during a look-ahead."""

    def stepped(wrap: Any, around: bool) -> Tensor:
        v, net = torch.zeros(models.SOURCES), models.residual()
        problem = Problem(wrap(models.outer), wrap(models.inner), v, net)
        stepper = Stepper(problem, BOME(GradientDescent(0.1, 5)), SGD([v], 0.1), oracle=oracle)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around):
            stepper.step(inner=models.samples(24, 1), outer=models.samples(8, 2))
        return torch.cat([v, *(p.detach().reshape(-1) for p in net.parameters())])

    inside, around = stepped(models.in_bfloat16, False), stepped(lambda loss: loss, True)
    assert torch.equal(inside, around)


def test_reentrant_checkpointing_is_refused_where_it_would_give_no_gradients() -> None:
    v, net = torch.zeros(models.SOURCES), models.checkpointed(True)
    problem = Problem(models.outer, models.inner, v, net)
    with pytest.raises(UnsupportedError, match="use oracle='backward'"):
        Stepper(problem, METHOD, SGD([v], 0.1), oracle="autograd").step(
            inner=models.samples(24, 1), outer=models.samples(8, 2)
        )
    gradient = make(problem, "backward").inner(*problem.point, models.samples(24, 1)).grad.theta
    plain = Problem(models.outer, models.inner, v, models.residual())
    aim = make(plain, "autograd").inner(*plain.point, models.samples(24, 1)).grad.theta
    assert all(torch.equal(a, b) for a, b in zip(gradient, aim, strict=True))
