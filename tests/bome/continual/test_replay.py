"""Strategies without a controller, against literal transcriptions and solvers of others."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bome.continual.replay import project, solve_bounded
from bome.continual.run import make_strategy
from bome.continual.settings import Settings
from tests.support.small_streams import small_stream
from tests.support.strategies import batches, in_double_precision, masked, of_pairs


@pytest.mark.parametrize("seed", range(12))
def test_the_quadratic_problem_of_gem_is_solved_as_by_another_solver(seed: int) -> None:
    draw = np.random.default_rng(seed)
    t, margin = int(draw.integers(1, 8)), float(draw.choice([0.0, 0.5]))
    rows, g = draw.normal(size=(t, 12)), draw.normal(size=12)
    gram, products = rows @ rows.T, rows @ g
    p = gram + 1e-3 * np.eye(t)

    def objective(u: Any) -> float:
        return float(u @ p @ u / 2 + products @ u)

    start = np.full(t, margin + 0.1)
    other = scipy.optimize.minimize(
        objective, start, jac=lambda u: p @ u + products, method="SLSQP", bounds=[(margin, None)] * t,
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    found = solve_bounded(gram, products, margin)
    assert (found >= margin).all()
    assert objective(found) <= objective(other.x) + 1e-9
    np.testing.assert_allclose(found, other.x, atol=2e-4)


def test_the_projected_gradient_conflicts_with_no_earlier_one_and_is_left_alone_without_conflict() -> None:
    draw = torch.Generator().manual_seed(0)
    earlier, g = torch.randn(4, 30, generator=draw), torch.randn(30, generator=draw)
    assert (earlier @ g < 0).any()
    assert float((earlier @ project(g, earlier, 0.0)).min()) > -1e-2  # up to the 10⁻³ on the diagonal
    agreeing = earlier * torch.sign(earlier @ g)[:, None]
    assert project(g, agreeing, 0.5) is g


def test_gem_copes_with_gradients_that_are_all_but_parallel() -> None:
    """In single precision their Gram matrix has negative eigenvalues; the answer is that of the definition."""
    draw = torch.Generator().manual_seed(0)
    common = torch.randn(50_000, generator=draw)
    earlier = 100 * (common + 1e-4 * torch.randn(6, 50_000, generator=draw))
    g = -common + 0.1 * torch.randn(50_000, generator=draw)
    assert float(torch.linalg.eigvalsh(earlier @ earlier.T).min()) < -1e-3
    exact = earlier.double()
    p, q = exact @ exact.T + 1e-3 * torch.eye(6), exact @ g.double()
    u = torch.from_numpy(solve_bounded((exact @ exact.T).numpy(), q.numpy(), 0.0))
    slope = p @ u + q  # KKT: none where u is free, upwards where it is at its bound
    size, free = float(p.diagonal().max()), u > 0
    assert free.any()
    assert not free.all()
    assert float(slope[free].abs().max()) < 1e-9 * size
    assert float(slope[~free].min()) > -1e-9 * size
    torch.testing.assert_close(project(g, earlier, 0.0), g + u.float() @ earlier)


def test_gem_leaves_gradients_alone_that_are_not_finite() -> None:
    """The network that they spoil is found at the end of the task."""
    earlier, g = torch.ones(2, 3), torch.tensor([-1.0, float("nan"), 0.0])
    assert project(g, earlier, 0.5) is g
    assert project(-torch.ones(3), earlier * torch.tensor([[1.0], [float("inf")]]), 0.5).equal(-torch.ones(3))


@pytest.mark.parametrize("name", ["er", "gem"])
def test_replay_and_projection_by_hand_with_a_head_for_each_task(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two updates for each batch of seven, rings of nine slots, which a task fills more than once."""
    stream = small_stream(shared=False)
    strategy = make_strategy(name, stream, Settings(batch=7, theta_lr=0.1, inner_steps=2, memory=9))
    in_double_precision(strategy, monkeypatch)
    net = stream.networks(modulated=False).base.double()
    parameters = list(net.parameters())
    generator, turned = torch.Generator().manual_seed(stream.seed), 0
    memory: dict[int, list[int]] = {}

    def loss(pairs: list[tuple[int, int]]) -> Tensor:
        x, y, task = of_pairs(stream, pairs)
        return cross_entropy(masked(net(x), task), 3 * task + y)

    def gradient(value: Tensor) -> Tensor:
        return torch.cat([x.flatten() for x in torch.autograd.grad(value, parameters)])

    for task, number, given in batches(strategy, 3):
        strategy.observe(given)
        rows = given.row.tolist()
        slots = memory.setdefault(task, [rows[0]] * 9)
        start = 7 * number % 14 if number % 2 else 0  # 0–6, then 7–8 and the rest is lost, then 0–6 again
        slots[start : min(start + len(rows), 9)] = rows[: 9 - start]
        fresh = [(task, row) for row in rows]
        for _ in range(2):
            if name == "er":
                value = loss(fresh)
                if task:
                    chosen = torch.randperm(9 * task, generator=generator)[:9].tolist()
                    value = value + loss([(place // 9, memory[place // 9][place % 9]) for place in chosen])
                step = gradient(value)
            else:
                step = gradient(loss(fresh))
                earlier = [gradient(loss([(t, row) for row in memory[t]])) for t in range(task)]
                if earlier and (torch.stack(earlier) @ step < 0).any():
                    step, turned = nearest(step, torch.stack(earlier)), turned + 1
            with torch.no_grad():
                for p, part in zip(parameters, torch.split(step, [p.numel() for p in parameters]), strict=True):
                    p.sub_(0.1 * part.view_as(p))
    assert turned or name == "er"
    for p, q in zip(strategy.base.parameters(), parameters, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)


def nearest(g: Tensor, earlier: Tensor) -> Tensor:
    """g + Gᵀu with the u ≥ 1/2 of gem, by a quasi-Newton method with bounds."""
    gram, q = (earlier @ earlier.T).numpy() + 1e-3 * np.eye(len(earlier)), (earlier @ g).numpy()
    found = scipy.optimize.minimize(
        lambda u: (u @ gram @ u / 2 + q @ u, gram @ u + q), np.ones(len(q)), jac=True, method="L-BFGS-B",
        bounds=[(0.5, None)] * len(q), options={"ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    return g + torch.from_numpy(found.x) @ earlier


def test_mer_is_reptile_over_a_reservoir() -> None:
    stream = small_stream()
    lr, gamma, s, size = 0.2, 0.4, 3, 10
    strategy = make_strategy("mer", stream, Settings(theta_lr=lr, gamma_reptile=gamma, inner_steps=s, memory=4))
    twin, generator = stream.networks(modulated=False).base, torch.Generator().manual_seed(stream.seed)
    kept: list[tuple[int, int]] = []
    seen = 0

    def descend(pairs: list[tuple[int, int]]) -> None:
        x = torch.stack([stream.train[t, r] for t, r in pairs]).float() / 255
        y = torch.stack([stream.train_labels[t, r] for t, r in pairs])
        grads = torch.autograd.grad(cross_entropy(twin(x), y), list(twin.parameters()))
        with torch.no_grad():
            for p, grad in zip(twin.parameters(), grads, strict=True):
                p.sub_(lr * grad)

    for task, _, given in batches(strategy, 2):
        strategy.observe(given)
        before = [p.detach().clone() for p in twin.parameters()]
        for _ in range(s if kept else 0):
            order = torch.randperm(len(kept), generator=generator)[:size].tolist()
            descend([kept[i] for i in order])
        descend([(task, row) for row in given.row.tolist()])
        with torch.no_grad():
            for p, start in zip(twin.parameters(), before, strict=True):
                p.copy_(start + gamma * (p - start))
        for row in given.row.tolist():
            if len(kept) < 4 * stream.tasks:
                kept.append((task, row))
            else:
                place = int(torch.randint(seen + 1, (), generator=generator))
                if place < len(kept):
                    kept[place] = (task, row)
            seen += 1
    for p, q in zip(strategy.base.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
