"""SABA: SOBA on the full batch, tables in NumPy, linear convergence on finite sums, refusals; fixed batches."""

import numpy as np
import pytest
import torch
from torch.optim import SGD

from bome import Batches, PerSample, Problem, Stepper
from bome.data.streams import Data, FixedBatches, Minibatches
from bome.errors import ProblemError, UnsupportedError
from bome.methods.saba import SABA
from bome.methods.soba import SOBA
from tests.support.problems import bed, finite_sum, full
from tests.support.sums import in_numpy

XI, RHO = 0.03, 0.3


def test_on_the_full_batch_it_is_soba() -> None:
    runs = []
    for method in (SABA(), SOBA()):
        q = bed()
        stepper = Stepper(q.problem, method, SGD(q.problem.v.leaves, XI), SGD(q.problem.theta.leaves, RHO))
        for _ in range(20):
            stepper.step()
        runs.append((q.v, q.theta, stepper.state["z"][0]))
    torch.testing.assert_close(runs[0], runs[1], rtol=1e-12, atol=1e-13)


def test_it_is_saga_on_five_quantities() -> None:
    """D = new − table[i] + mean(table), for H_i(θ−A_iv), H_iz, −A_iᵀH_iz and for θ−a_j, v−b_j; tables from 0."""
    sums = finite_sum(count=6)
    problem, tensors = sums.problem, (sums.H, sums.A, sums.a, sums.b)
    data = Data(inner=FixedBatches(tensors, 6, seed=1), outer=FixedBatches(tensors, 3, seed=2))
    stepper = Stepper(problem, SABA(6, 3), SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, RHO))
    v, theta, z = problem.point.v[0].numpy().copy(), problem.point.theta[0].numpy().copy(), np.zeros(4)
    inner = [np.zeros((6, 4)), np.zeros((6, 4)), np.zeros((6, 3))]
    outer = [np.zeros((3, 4)), np.zeros((3, 3))]
    for _ in range(20):
        batches = data.draw(inner=1, outer=1)
        stepper.step_on(batches)
        (h, matrix, _, _), (_, _, a, b) = in_numpy([batches.inner[0].data, batches.outer[0].data])
        news = h[0] @ (theta - matrix[0] @ v), h[0] @ z, -matrix[0].T @ h[0] @ z
        others = theta - a.mean(0), v - b.mean(0)  # an outer part has two terms
        moves = []
        for tables, values, i in ((inner, news, batches.inner[0].id), (outer, others, batches.outer[0].id)):
            for table, new in zip(tables, values, strict=True):
                moves.append(new - table[i] + table.mean(0))
                table[i] = new
        d_g, d_hz, d_bz, d_f, d_v = moves
        theta, z, v = theta - RHO * d_g, z - RHO * (d_hz + d_f), v - XI * (d_v + d_bz)
        np.testing.assert_allclose(problem.point.theta[0].numpy(), theta, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(problem.point.v[0].numpy(), v, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(stepper.state["z"][0].numpy(), z, rtol=1e-11, atol=1e-12)


def test_with_constant_steps_it_converges_linearly_to_the_solution_of_the_whole_sum() -> None:
    """The distance falls to 1e-9 along a straight line in the logarithm, where SOBA stays in noise of about 0.1."""
    sums = finite_sum(count=6)
    problem, tensors = sums.problem, (sums.H, sums.A, sums.a, sums.b)
    solution = torch.cat(sums.solution())
    data = Data(inner=FixedBatches(tensors, 6, seed=1), outer=FixedBatches(tensors, 3, seed=2))
    stepper = Stepper(problem, SABA(6, 3), SGD(problem.v.leaves, 0.03), SGD(problem.theta.leaves, 0.15))
    logs = []
    for k in range(1200):
        stepper.step_on(data.draw(inner=1, outer=1))
        if k % 100 == 99:
            distance = (torch.cat((problem.point.v[0], problem.point.theta[0])) - solution).norm()
            logs.append(float(distance.log10()))
    assert logs[-1] <= -9
    fit = np.polyfit(range(len(logs)), logs, 1)
    assert fit[0] < -0.5
    assert np.abs(np.polyval(fit, range(len(logs))) - logs).max() <= 1.0


def test_a_step_costs_what_is_declared_and_the_state_does_not_grow() -> None:
    sums, method = finite_sum(count=6), SABA(6, 3)
    problem, tensors = sums.problem, (sums.H, sums.A, sums.a, sums.b)
    data = Data(inner=FixedBatches(tensors, 6), outer=FixedBatches(tensors, 3))
    stepper = Stepper(problem, method, SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, RHO))
    numbers = set()
    for _ in range(9):
        stepper.step_on(data.draw(inner=1, outer=1))
        numbers.add(sum(x.numel() for group in stepper.state.values() for x in group))
    assert numbers == {4 + 7 * (2 * 4 + 3) + 4 * (4 + 3)}  # z, (N+1)(2n+m), (M+1)(n+m)
    assert method.cost == {"g": 1, "f": 1, "hvp": 1, "xvp": 1}
    assert stepper.counts == {kind: 9 * n for kind, n in method.cost.items()}


def test_batches_of_another_partition_are_refused_before_anything_moves() -> None:
    sums = finite_sum(count=6)
    problem, tensors = sums.problem, (sums.H, sums.A, sums.a, sums.b)
    fixed, drawn = FixedBatches(tensors, 6), Minibatches(tensors, 2)
    cases = (
        (SABA(6, 6), Batches(inner=(drawn.next(),), outer=(fixed.next(),)), "this batch is drawn anew in every epoch"),
        (SABA(1, 1), Batches(inner=(drawn.next(),), outer=(drawn.next(),)), "this batch is drawn anew in every epoch"),
        (
            SABA(6, 4),
            Batches(inner=(fixed.next(),), outer=(fixed.next(),)),
            "outer_parts=4 fixed batches, but .* one of 6 fixed",
        ),
        (
            SABA(6, 6),
            Batches(inner=(sums.inner(0),), outer=(sums.inner(0),)),
            "inner_parts=6 fixed batches, but .* one of 1 fixed",
        ),
    )
    before = [x.clone() for x in (*problem.point.v, *problem.point.theta)]
    for method, batches, message in cases:
        stepper = Stepper(problem, method, SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, RHO))
        with pytest.raises(ProblemError, match=message):
            stepper.step_on(batches)
        torch.testing.assert_close([*problem.point.v, *problem.point.theta], before, rtol=0, atol=0)
    Stepper(problem, SABA(), SGD(problem.v.leaves, XI), SGD(problem.theta.leaves, RHO)).step(
        inner=tensors, outer=tensors
    )


def test_a_row_per_sample_and_senseless_numbers_are_refused() -> None:
    with pytest.raises(ProblemError, match="inner_parts must be a whole number of at least 1"):
        SABA(inner_parts=0)
    table, theta = PerSample(3, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    problem = Problem(lambda v, t, b: t.square(), lambda v, t, b: (v * t).sum(), table, theta)
    with pytest.raises(UnsupportedError, match="saba cannot solve this problem: it keeps estimates of all of v"):
        Stepper(problem, SABA(), SGD([table.values], 0.1), SGD([theta], 0.1))


def test_fixed_batches_visit_the_same_parts_once_an_epoch_in_changing_order() -> None:
    x = torch.arange(11.0)
    stream = FixedBatches((x, -x), 3, seed=4)
    epochs = [[stream.next() for _ in range(3)] for _ in range(6)]
    orders = {tuple(batch.id for batch in epoch) for epoch in epochs}
    assert len(orders) > 1
    for epoch in epochs:
        assert sorted(batch.id for batch in epoch) == [0, 1, 2]
        for batch in epoch:
            assert batch.parts == 3
            assert batch.rows.tolist() == list(range(batch.id, 11, 3))
            torch.testing.assert_close(batch.data, (x[batch.rows], -x[batch.rows]), rtol=0, atol=0)


def test_fixed_batches_resume_at_the_very_batch() -> None:
    x = torch.arange(10.0)
    stream = FixedBatches((x,), 5, seed=4)
    for _ in range(7):
        stream.next()
    other = FixedBatches((x,), 5, seed=9)
    other.load_state_dict(stream.state_dict())
    assert [other.next().id for _ in range(12)] == [stream.next().id for _ in range(12)]
    for bad in (0, 11, 2.5):
        with pytest.raises(ProblemError, match="parts must be between 1 and the 10 samples"):
            FixedBatches((x,), bad)  # type: ignore[arg-type]


def test_one_part_is_the_full_batch() -> None:
    assert full(SABA()) == Batches(inner=(None,), outer=(None,))
    batch = FixedBatches((torch.arange(4.0),), 1).next()
    assert (batch.id, batch.parts, batch.rows.tolist()) == (0, 1, [0, 1, 2, 3])
