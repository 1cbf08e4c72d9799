"""Rows of samples: lazy momentum against dense SGD, and loaders that bring each sample to its own row."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from bome import (
    BOME,
    Data,
    GradientDescent,
    Indexed,
    MaxSteps,
    PerSample,
    Problem,
    RankSampler,
    RowSGD,
    Stepper,
    box,
    gather_rows,
    nonnegative,
    run,
    simplex,
)
from bome._typing import Projection
from bome.data.streams import Minibatches
from bome.errors import NonFiniteError, ProblemError
from bome.loop import Record
from bome.per_sample import own_rows

F64 = torch.float64
N = 12


def sparse(rows: Tensor, values: Tensor, like: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(rows[None], values, like.shape, check_invariants=False)


def touches(seed: int, steps: int, n: int = N, width: tuple[int, ...] = ()) -> list[tuple[Tensor, Tensor]]:
    """Random rows with random gradients; rows near the end of the table are seldom touched."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(steps):
        rows = torch.rand(3, generator=generator).square().mul(n).long()
        rows = torch.tensor(sorted(set(rows.tolist())))
        found.append((rows, torch.randn(len(rows), *width, generator=generator, dtype=F64)))
    return found


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 60),
    momentum=st.sampled_from([0.0, 0.3, 0.9, 0.99]),
    wide=st.booleans(),
    scheduled=st.booleans(),
)
def test_rows_with_momentum_equal_dense_sgd_whenever_they_are_touched_and_after_a_flush(
    seed: int, steps: int, momentum: float, wide: bool, scheduled: bool
) -> None:
    width = (2,) if wide else ()
    start = torch.randn(N, *width, generator=torch.Generator().manual_seed(seed), dtype=F64)
    dense, lazy = start.clone().requires_grad_(), start.clone().requires_grad_()
    opts = SGD([dense], 0.1, momentum=momentum), RowSGD([lazy], 0.1, momentum)
    schedules = [CosineAnnealingLR(opt, 17, eta_min=0.01) for opt in opts] if scheduled else []
    for rows, grad in touches(seed, steps, width=width):
        now = opts[1].current(lazy, rows)
        torch.testing.assert_close(now, dense.detach()[rows], rtol=1e-12, atol=1e-12)
        dense.grad = torch.zeros_like(dense).index_copy(0, rows, grad)
        lazy.grad = sparse(rows, grad, lazy)
        opts[0].step()
        opts[1].step()
        for schedule in schedules:
            schedule.step()
        torch.testing.assert_close(lazy.detach()[rows], dense.detach()[rows], rtol=1e-12, atol=1e-12)
    opts[1].flush()
    torch.testing.assert_close(lazy, dense, rtol=1e-12, atol=1e-12)


def test_a_row_that_is_not_brought_up_to_date_differs_from_dense_sgd() -> None:
    """Negative control: without the missed steps row 0 stands where the first step left it."""
    dense, lazy = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    opts = SGD([dense], 1.0, momentum=0.5), RowSGD([lazy], 1.0, 0.5)
    for row in (0, 1, 1):
        dense.grad, lazy.grad = torch.eye(2)[row], sparse(torch.tensor([row]), torch.ones(1), lazy)
        for opt in opts:
            opt.step()
    assert lazy[0] == -1
    assert dense[0] == -1.75  # −(1 + ½ + ¼)
    opts[1].flush()
    assert torch.equal(lazy, dense)


@pytest.mark.parametrize(("rule", "width"), [(box(-0.3, 0.3), ()), (nonnegative(), (2,)), (simplex(), (4,))])
def test_boxes_signs_and_simplices_are_those_of_dense_sgd_projected_after_every_step(
    rule: Projection, width: tuple[int, ...]
) -> None:
    assert _farthest(rule, width) < 1e-12


def test_a_projection_onto_a_round_set_is_done_when_the_row_is_touched() -> None:
    """So it differs from one after every step, as the documentation says."""
    assert _farthest(lambda x: x / x.norm(dim=1, keepdim=True).clamp(min=1), (3,)) > 1e-3


def _farthest(rule: Projection, width: tuple[int, ...]) -> float:
    """Between the rows that steps see and those of dense SGD projected after every step, with the same gradients."""
    dense = rule(torch.zeros(N, *width, dtype=F64))
    dense.requires_grad_()
    table = PerSample(N, shape=width, dtype=F64)
    table.values.copy_(dense.detach())
    lazy = RowSGD([table.values], 0.2, 0.9)
    opt, farthest = SGD([dense], 0.2, momentum=0.9), 0.0

    def inner(v: Tensor, theta: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return theta.square().sum()

    def outer(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
        seen.append(v.detach().clone())
        return (v * batch).sum() + theta.sum()

    problem = Problem(outer, inner, table, torch.ones((), dtype=F64), project_v=rule)
    stepper = Stepper(problem, BOME(GradientDescent(0.1, 1)), lazy)
    for rows, grad in touches(3, 120, width=width):
        seen: list[Tensor] = []
        stepper.step(inner=(grad, rows), outer=grad)
        farthest = max(farthest, float((seen[-1] - dense.detach()[rows]).abs().max()))
        torch.testing.assert_close(
            rule(seen[-1]), seen[-1], rtol=1e-12, atol=1e-12
        )  # rows that are read lie in the set
        dense.grad = torch.zeros_like(dense).index_copy(0, rows, grad)
        opt.step()
        with torch.no_grad():
            dense.copy_(rule(dense))
    stepper.settle()
    return max(farthest, float((table.values - dense.detach()).abs().max()))


def weighted(w: Tensor, theta: Tensor, batch: Any) -> Tensor:
    x, y = batch.data if hasattr(batch, "data") else batch[:2]
    return (w.sigmoid() * cross_entropy(x @ theta, y, reduction="none")).mean()


def plain(w: Tensor, theta: Tensor, batch: Any) -> Tensor:
    x, y = batch.data if hasattr(batch, "data") else batch[:2]
    return cross_entropy(x @ theta, y)


def samples(n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 4, generator=generator, dtype=F64), torch.randint(3, (n,), generator=generator)


def problem_of_rows(n: int = N) -> Problem:
    return Problem(plain, weighted, PerSample(n, dtype=F64), torch.zeros(4, 3, dtype=F64), project_v=box(-1, 1))


def test_a_run_with_lazy_momentum_goes_on_bit_for_bit_after_a_stop(tmp_path: Path) -> None:
    def one(stop: int, folder: Path) -> Problem:
        problem = problem_of_rows()
        opt = RowSGD(problem.v.leaves, 5.0, 0.9)
        schedule = CosineAnnealingLR(opt, 40)
        data = Data(inner=Minibatches(samples(), 3, seed=1), outer=Minibatches(samples(), 6, seed=2))
        record = Record(folder, save_every=7, resume=True)
        method = BOME(GradientDescent(0.1, 2))
        run(problem, method, outer_opt=opt, data=data, stop=MaxSteps(stop), schedulers=[schedule], record=record)
        return problem

    whole = one(30, tmp_path / "whole")
    one(13, tmp_path / "parts")
    parts = one(30, tmp_path / "parts")
    assert torch.equal(whole.v.leaves[0], parts.v.leaves[0])
    assert torch.equal(whole.theta.leaves[0], parts.theta.leaves[0])


def test_a_failed_step_leaves_rows_and_momentum_as_they_were() -> None:
    problem = problem_of_rows()
    opt = RowSGD(problem.v.leaves, 1.0, 0.9)
    stepper, (x, y) = Stepper(problem, BOME(GradientDescent(0.1, 2)), opt), samples()
    for rows in torch.arange(N).view(-1, 3):
        stepper.step(inner=(x[rows], y[rows], rows), outer=(x, y))
    table = problem.v.leaves[0]
    before = [table.clone(), opt.state[table]["momentum"].clone(), opt.state[table]["last"].clone()]
    with pytest.raises(NonFiniteError):
        stepper.step(inner=(x[:3] * torch.nan, y[:3], torch.arange(3)), outer=(x, y))
    after = [table, opt.state[table]["momentum"], opt.state[table]["last"]]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_counts_of_steps_survive_a_state_dict_as_whole_numbers() -> None:
    """Torch casts the state of an optimiser to the type of the parameter; in float32 2^24 + 1 is 2^24."""
    table = torch.zeros(3)
    opt = RowSGD([table], 0.1, 0.9)
    table.grad = sparse(torch.tensor([0]), torch.ones(1), table)
    opt.step()
    opt.state[table]["last"][0] = 2**24 + 1
    again = RowSGD([table], 0.1, 0.9)
    again.load_state_dict(opt.state_dict())
    assert again.state[table]["last"].dtype == torch.int32
    assert again.state[table]["last"][0] == 2**24 + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RowSGD([torch.zeros(2)], 0.0), "lr must be a positive number"),
        (lambda: RowSGD([torch.zeros(2)], 0.1, 1.0), r"momentum must be in \[0, 1\)"),
        (lambda: RowSGD([torch.zeros(())], 0.1), "first dimension counts the rows"),
        (lambda: Indexed(iter([1])), "with a length and samples by index"),  # type: ignore[arg-type]
        (lambda: RankSampler(3, rank=2, world=2), "rank 2 of 2 ranks"),
        (lambda: RankSampler(1, rank=0, world=2), "a share of 1 samples"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        make()


def test_a_step_costs_the_same_for_a_thousand_times_as_many_samples() -> None:
    """Medians, interleaved; 10^3 rows against 10^6, where touching the whole table would take 100 times as long."""
    x, y = samples(64)
    steppers = []
    for n in (10**3, 10**6):
        table = PerSample(n)
        theta = torch.zeros(4, 3, dtype=F64)
        problem = Problem(plain, weighted, table, theta, project_v=box(-1, 1))
        steppers.append(Stepper(problem, BOME(GradientDescent(0.1, 2)), RowSGD([table.values], 1.0, 0.9)))
    seconds: list[list[float]] = [[], []]
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        for stepper, taken in zip(steppers, seconds, strict=True):
            rows = torch.randint(len(stepper.problem.v.leaves[0]), (64,), generator=generator)
            start = time.perf_counter()
            stepper.step(inner=(x, y, rows), outer=(x, y))
            taken.append(time.perf_counter() - start)
    small, large = (sorted(each)[20] for each in seconds)
    assert large < 3 * small


# --- loaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_an_indexed_data_set_tells_the_row_of_every_sample_under_shuffling(workers: int) -> None:
    x = torch.arange(N, dtype=F64)[:, None] * 10
    loader = DataLoader(Indexed(TensorDataset(x, -x)), batch_size=5, shuffle=True, num_workers=workers)
    met = []
    for a, b, rows in loader:
        assert torch.equal(a[:, 0], 10.0 * rows)
        assert torch.equal(b[:, 0], -10.0 * rows)
        met += rows.tolist()
    assert sorted(met) == list(range(N))


def test_samples_that_are_no_tuples_get_their_index_too() -> None:
    assert Indexed([7, 8])[1] == (8, 1)
    assert Indexed([7, 8])[-1] == (8, 1)
    assert list(Indexed(torch.tensor([3, 4]))[0]) == [3, 0]


@pytest.mark.parametrize("n", [12, 13])
def test_two_distributed_samplers_bring_every_sample_to_its_own_row(n: int) -> None:
    """Two ranks; each weight moves by its own sample's gradient, also the one that the padding gives to both ranks."""
    data = TensorDataset(torch.arange(n, dtype=F64))
    expected = -0.1 * torch.arange(n, dtype=F64)
    tables, owned = [], []
    for rank in range(2):
        sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=2, rank=rank, shuffle=True, seed=4)
        table = torch.zeros(n, dtype=F64)
        opt = RowSGD([table], 0.1)
        for x, rows in DataLoader(Indexed(data), batch_size=4, sampler=sampler):
            table.grad = sparse(rows, x, table)
            opt.step()
        tables.append(table)
        owned.append(own_rows(sampler))
    assert sorted(torch.cat(owned).tolist()) == list(range(n))  # each row has one owner, in spite of the padding
    assert sum(len(own) for own in owned) == n
    whole = sum(gather_rows(table, own) for table, own in zip(tables, owned, strict=True))
    torch.testing.assert_close(whole, expected)


def test_a_sample_twice_in_a_batch_moves_its_row_by_both() -> None:
    table = PerSample(3, dtype=F64)
    problem = Problem(lambda v, t, b: v.sum() + t, lambda v, t, b: t.square(), table, torch.ones((), dtype=F64))
    stepper = Stepper(problem, BOME(GradientDescent(0.1, 1)), RowSGD([table.values], 1.0, 0.9))
    rows = torch.tensor([2, 0, 2])
    stepper.step(inner=(None, rows), outer=None)
    assert table.values.tolist() == [-1, 0, -2]


@pytest.mark.parametrize("n", [12, 13])
def test_a_rank_sampler_keeps_every_sample_on_its_rank_in_another_order_each_epoch(n: int) -> None:
    ranks = [RankSampler(n, seed=3, rank=rank, world=2) for rank in range(2)]
    first, second = ([list(sampler) for sampler in ranks] for _ in range(2))
    assert [set(each) for each in first] == [set(each) for each in second] == [set(range(0, n, 2)), set(range(1, n, 2))]
    assert first != second
    assert len(first[0]) == len(first[1]) == len(ranks[0])  # none waits for another
    ranks[0].set_epoch(0)
    assert list(ranks[0]) == first[0]
