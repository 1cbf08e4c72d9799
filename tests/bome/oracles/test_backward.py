"""Gradients by `backward()`, for modules whose gradients are only right after it: DDP wrappers."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.optim import SGD

from bome import BOME, AutogradOracle, BackwardOracle, GradientDescent, Problem, Stepper
from bome.errors import UnsupportedError
from bome.methods import AIDCG, ITD


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


def problem_of(net: nn.Module, v: Tensor) -> Problem:
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
    return Problem(
        lambda v, net, _: (net(x) - 1).square().mean(), lambda v, net, _: v.exp() * (net(x) - v).square().mean(), v, net
    )


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2, dtype=torch.float64)


@pytest.mark.usefixtures("group")
def test_a_ddp_module_is_stepped_by_backward_as_the_plain_one_is() -> None:
    plain, wrapped = linear(), nn.parallel.DistributedDataParallel(linear())
    ends = []
    for net in (plain, wrapped):
        v = torch.zeros((), dtype=torch.float64)
        stepper = Stepper(problem_of(net, v), BOME(GradientDescent(0.1, 3)), SGD([v], 0.1))
        for _ in range(5):
            stepper.step()
        ends.append(torch.cat([v.reshape(1), *(p.detach().reshape(-1) for p in net.parameters())]))
    assert isinstance(stepper.oracle, BackwardOracle)
    assert torch.allclose(ends[0], ends[1], rtol=1e-12, atol=0)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("method", [AIDCG(GradientDescent(0.1, 3)), ITD(GradientDescent(0.1, 3))], ids=lambda m: m.name)
def test_second_order_methods_are_refused_for_ddp_before_the_first_step(method: AIDCG | ITD) -> None:
    v = torch.zeros((), dtype=torch.float64)
    problem = problem_of(nn.parallel.DistributedDataParallel(linear()), v)
    with pytest.raises(UnsupportedError, match=f"{method.name} needs .* first-order method such as bome"):
        Stepper(problem, method, SGD([v], 0.1))
    with pytest.raises(UnsupportedError, match="gradients of one rank"):
        AutogradOracle(problem)
