"""One rank of a group of one: plain tensors stay as they are, sharded ones are known; tests/distributed has several."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bome.core import ranks
from bome.core.ranks import Ranks
from bome.errors import UnsupportedError


@pytest.fixture
def group() -> Iterator[Ranks]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield Ranks(dist.group.WORLD)  # type: ignore[arg-type]
    dist.destroy_process_group()


def sharded(whole: Tensor) -> Tensor:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(whole, init_device_mesh("cpu", (1,)), [Shard(0)])


def test_a_plain_tensor_is_its_own_part_and_its_own_whole() -> None:
    x = torch.arange(4.0)
    assert not ranks.is_sharded(x)
    assert not ranks.is_sharded(nn.Parameter(x))
    assert ranks.local(x) is x
    assert ranks.whole(x).data_ptr() == x.data_ptr()
    assert ranks.sharded_like(x, x) is x
    assert ranks.shard_of(x, x) is x
    assert ranks.layout(x) is None
    assert ranks.summed(x, None) is x


@pytest.mark.usefixtures("group")
def test_a_sharded_tensor_is_known_and_comes_back_whole() -> None:
    whole = torch.arange(6.0).reshape(3, 2)
    part = sharded(whole)
    assert ranks.is_sharded(part)
    assert torch.equal(ranks.local(part), whole)
    assert torch.equal(ranks.whole(part), whole)
    again = ranks.sharded_like(2 * ranks.local(part), part)
    assert ranks.is_sharded(again)
    assert torch.equal(ranks.whole(again), 2 * whole)
    laid = ranks.shard_of(whole, part)
    assert ranks.layout(laid) == ranks.layout(part)
    assert ranks.shard_of(part, part) is part
    assert ranks.summed(torch.tensor([3.0]), ranks.layout(part)).tolist() == [3.0]


def test_numbers_of_one_rank_are_their_own_mean_and_their_own_largest(group: Ranks) -> None:
    assert (group.size, group.rank) == (1, 0)
    assert group.largest(3, -1) == [3, -1]
    assert group.gathered(1, 2) == [[1, 2]]
    assert group.all_agree(True)
    assert not group.all_agree(False)
    assert group.mean([]) == ()
    given = (torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor(3.0, dtype=torch.bfloat16))
    for mean, x in zip(group.mean(given), given, strict=True):
        assert (mean.dtype, mean.shape) == (x.dtype, x.shape)
        assert torch.equal(mean, x)


def test_rows_of_samples_become_a_part_of_a_larger_tensor(group: Ranks) -> None:
    gradient = torch.ones(2, 3)
    rows = group.rows(gradient)
    assert ranks.is_sharded(rows)
    assert torch.equal(ranks.local(rows), gradient)


@pytest.mark.usefixtures("group")
def test_a_ddp_module_averages_its_own_parameters_and_no_others() -> None:
    plain, wrapped = nn.Linear(2, 1), DistributedDataParallel(nn.Linear(2, 1))
    assert ranks.replicas(nn.Sequential(plain, wrapped)) == [wrapped]
    assert not ranks.synchronises(plain)
    assert ranks.synchronises(wrapped)
    assert ranks.ranks_of([plain]) is None
    found = ranks.ranks_of([plain, wrapped])
    assert found is not None
    assert found.size == 1
    leaves = (*wrapped.parameters(), *plain.parameters())
    assert ranks.averages_itself(wrapped, leaves) == (True, True, False, False)
    assert ranks.averages_itself(None, leaves) == (False,) * 4
    with ranks.without_averaging([plain, wrapped]):
        assert not wrapped.require_backward_grad_sync
    assert wrapped.require_backward_grad_sync


@pytest.mark.usefixtures("group")
def test_modules_that_average_over_different_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [DistributedDataParallel(nn.Linear(2, 1)) for _ in range(2)]
    members: Any = iter([[0], [0, 1]])
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: next(members))
    with pytest.raises(UnsupportedError, match="average over different ranks: use one process group"):
        ranks.ranks_of(modules)


def test_nothing_is_resharded_where_there_are_no_ranks() -> None:
    net = nn.Linear(2, 1)
    before = net.weight.detach().clone()
    ranks.reshard([net])
    assert torch.equal(net.weight, before)
